"""torch.compile's part in compare_pytorch_model.py: a process for each precision and batch, which compiles beside the others,
says "ready" and times itself when it is told to; and how any PyTorch network is captured and timed."""

import copy
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
from race.networks import build

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
VARIANTS = {"nchw": ("NCHW", {}), "nhwc": ("NHWC", {}), "frozen": ("NHWC", {"freezing": True}),
            "autotune": ("NHWC", {"freezing": True, "max_autotune": True})}  # of torch.compile


def capture(call):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def time_graph(graph, seconds):
    """Median milliseconds of a replay."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples, spent = [], 0.0
    while len(samples) < 20 or spent < seconds * 1e3:
        before.record()
        graph.replay()
        after.record()
        after.synchronize()
        samples.append(before.elapsed_time(after))
        spent += samples[-1]
    return statistics.median(samples[3:])


def set_precision(precision):
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"


def in_layout(model, x, precision, layout):
    memory_format = torch.channels_last if layout == "NHWC" else torch.contiguous_format
    net = copy.deepcopy(model).cuda().to(dtype=DTYPES[precision], memory_format=memory_format)
    return net, x.cuda().to(DTYPES[precision]).contiguous(memory_format=memory_format)


def main(arch, precision, batch, seconds, variants):
    """Compiles, says "ready", waits for a line, times, says the times."""
    set_precision(precision)
    model, x = build(arch), torch.randn(int(batch), 3, 224, 224)
    captured = {}
    for layout, options in (VARIANTS[name] for name in variants.split(",")):
        variant = f"{layout}, torch.compile{''.join(' ' + o for o in options)}, CUDA graph"
        try:
            net, input = in_layout(model, x, precision, layout)
            torch._dynamo.reset()
            with torch.no_grad():  # freezing does not know inference_mode
                compiled = torch.compile(net, dynamic=False, options=options)
                graph = capture(lambda: compiled(input))
            captured[variant] = (graph, compiled, input)
        except Exception as error:  # the others may do
            print(f"{variant}: {type(error).__name__}: {str(error).strip().splitlines()[0]}", file=sys.stderr)
    torch.cuda.empty_cache()  # what choosing kernels needed, for those that still choose
    print("ready", flush=True)
    if not sys.stdin.readline():
        return  # nobody asks any more
    print(json.dumps({variant: time_graph(graph, float(seconds)) for variant, (graph, *_) in captured.items()}), flush=True)


class Contestant:
    """A process that compiles one precision and batch by some of VARIANTS, or by JAX, and times it when asked."""

    def __init__(self, a, arch, precision, batch, variants):
        program = "race.jax_contestant" if variants == ["jax"] else "race.contestant"
        self.name = f"{','.join(variants)}: {arch}, {precision}, N = {batch}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, arch, precision, str(batch), str(a.seconds), ",".join(variants)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="4" if a.together == 1 else "1", PYTHONPATH=str(Path(__file__).parents[1])))
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)  # it has ended

    def wait_until_ready(self, deadline):
        try:
            ready = self.lines.get(timeout=max(0.1, deadline - time.monotonic())) == "ready"
        except queue.Empty:
            ready = False
        if not ready:
            print(f"  {self.name}: out of the race, not compiled in time or failed", file=sys.stderr)
            self.stop()
        return ready

    def times(self):
        """variant -> milliseconds"""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        try:
            said = self.lines.get(timeout=60)
        except queue.Empty:
            said = None
        self.stop()
        return json.loads(said) if said else {}

    def stop(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # with the compilers that it started
        except ProcessLookupError:
            pass
        self.process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
