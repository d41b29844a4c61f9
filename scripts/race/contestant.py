"""A process of compare_pytorch_model.py, for one network after another: exports it, waits until it may use the GPU, checks
Lamina's answers, captures PyTorch's variants, says what it found, and times those when it is told to; and how any PyTorch
network is captured and timed."""

import contextlib
import copy
import fcntl
import gc
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
from race.networks import build, export, image_shape

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# Layout, and how torch.compile is asked, if it is. All run in a CUDA graph.
VARIANTS = {"graph_nchw": ("NCHW", None), "graph": ("NHWC", None), "nchw": ("NCHW", {}), "nhwc": ("NHWC", {}),
            "frozen": ("NHWC", {"freezing": True}), "autotune": ("NHWC", {"freezing": True, "max_autotune": True})}


@contextlib.contextmanager
def turn(path):
    """Holds the lock of a file, as `lamina bench model --turns` does."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def capture(call, device="cuda"):
    """What replays a call."""
    if device == "cpu":
        call()
        return call
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    torch.cuda.empty_cache()  # what choosing kernels needed, for those that still choose

    def replay(_weights=call):  # which the graph reads
        graph.replay()
    return replay


def time_replays(replay, seconds, device="cuda"):
    """Median milliseconds of a replay."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2)) if device == "cuda" else (None, None)
    samples, spent = [], 0.0
    while len(samples) < 6 or spent < seconds * 1e3 or len(samples) < 20 and spent < seconds * 1e4:
        if device == "cpu":
            begun = time.perf_counter()
            replay()
            samples.append(1e3 * (time.perf_counter() - begun))
        else:
            before.record()
            replay()
            after.record()
            after.synchronize()
            samples.append(before.elapsed_time(after))
        spent += samples[-1]
    return statistics.median(samples[3:])


def set_precision(precision):
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"


def in_layout(model, x, precision, layout, device):
    memory_format = torch.channels_last if layout == "NHWC" else torch.contiguous_format
    net = copy.deepcopy(model).to(device, DTYPES[precision], memory_format=memory_format)
    return net, x.to(device, DTYPES[precision]).contiguous(memory_format=memory_format)


def one_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def wait_for_gpu():
    """Says that all is done that needs no GPU, and waits while others are timed on it."""
    print(json.dumps({"built": True}), flush=True)
    if not sys.stdin.readline():
        sys.exit()  # nobody asks any more


class Preparation:
    def __init__(self, task):
        self.task, self.device = task, task["device"]
        self.model = build(task["arch"])
        self.stem = f"{task['folder']}/{task['arch'].replace(':', '.')}-{os.getpid()}"
        self.files = {}  # batch, or None for any -> the network as ONNX, or what the exporter said
        self.captured = {}  # cell -> variant -> what replays it
        if task["check"]:
            with contextlib.suppress(Exception):
                self.file_of(None)

    def file_of(self, batch):
        if batch not in self.files:
            self.files[batch] = f"{self.stem}-{batch or 'open'}.onnx"
            try:
                export(self.task["arch"], self.files[batch], self.model, batch)
            except Exception as error:  # noqa: BLE001
                self.files[batch] = error
        if isinstance(self.files[batch], Exception):
            raise self.files[batch]
        return self.files[batch]

    def lamina_answers(self, file, source, precision, result):
        from safetensors.torch import load_file
        done = subprocess.run([self.task["lamina"], "run", "--model", file, "--device", self.device, "--precision", precision, "--input",
                               source, "--output", result], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"lamina run: {done.stderr.strip()}")
        return next(iter(load_file(result).values()))

    def lamina(self, x, precision, picked, truth):
        """(a file that Lamina runs at this batch, the error of its answers)"""
        said = None
        torch.save(x, self.stem + ".pt")
        for batch in (None, len(x)):  # an open batch is what a network may not have been written for
            try:
                file = self.file_of(batch)
                answers = self.lamina_answers(file, self.stem + ".pt", precision, self.stem + ".safetensors")
                return file, relative_error(answers[picked], truth)
            except Exception as error:  # noqa: BLE001
                said = one_line(error)
        raise RuntimeError(said)

    def variant(self, name, x, precision, picked, truth):
        """(what replays it, the error of its answers)"""
        layout, options = VARIANTS[name]
        net, input = in_layout(self.model, x, precision, layout, self.device)
        compiling = searching = contextlib.nullcontext()
        if options is None:  # cuDNN's search has the GPU to itself, and what it finds serves the compiled ones too
            searching = turn(self.task["turns"])
        else:  # freezing that torch.compile is given as an option comes too late: weights are inputs then, and nothing is folded
            compiling = torch._inductor.config.patch(options)
            net = torch.compile(net, dynamic=False)
        with compiling, torch.no_grad():  # freezing does not know inference_mode
            with searching:
                error = relative_error(net(input)[picked], truth)
            return capture(lambda: net(input), self.device), error

    def cell(self, precision, batch):
        """What main prints of it: files, errors, and what failed, in words."""
        found = {"errors": {}, "failed": {}}
        x = torch.randn(batch, *image_shape(self.task["arch"]))
        picked = sorted({0, batch // 2, batch - 1})
        torch.backends.cudnn.benchmark = False
        with torch.no_grad():
            truth = copy.deepcopy(self.model).to(self.device).double()(x[picked].to(self.device).double()).cpu()
        set_precision(precision)
        try:
            if self.task["check"]:
                found["file"], found["error"] = self.lamina(x, precision, picked, truth)
        except Exception as error:  # noqa: BLE001
            found["failed"]["lamina"] = one_line(error)
        replays = self.captured[f"{precision}:{batch}"] = {}
        for name in self.task["variants"]:
            try:
                replays[name], found["errors"][name] = self.variant(name, x, precision, picked, truth)
            except Exception as error:  # noqa: BLE001
                found["failed"][name] = one_line(error)
        return found


def relative_error(answers, truth):
    return ((answers.cpu().double() - truth).norm() / truth.norm()).item()


def take_part(task):
    torch.backends.cudnn.benchmark_limit = task["search"]
    preparation = Preparation(task)
    wait_for_gpu()
    print(json.dumps({f"{p}:{n}": preparation.cell(p, n) for p, n in task["cells"]}), flush=True)
    if not sys.stdin.readline():
        sys.exit()  # nobody asks any more
    with torch.no_grad():  # on a CPU a replay is a call, which is compiled again where that differs
        print(json.dumps({cell: {name: time_replays(replay, task["seconds"], task["device"]) for name, replay in replays.items()}
                          for cell, replays in preparation.captured.items()}), flush=True)


def main():
    """A task a line: libraries and the GPU's context serve one after another."""
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1000  # all cells are kept
    for line in sys.stdin:
        take_part(json.loads(line))
        torch._dynamo.reset()
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


class Contestant:
    """A process that takes part with one network after another, or JAX's or cuDNN's with one."""

    def __init__(self, program):
        self.program = program
        self.process = subprocess.Popen(
            [sys.executable, "-m", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True, env=dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1", OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(
                [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])))
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def begin(self, task):
        self.task, self.found, self.built = task, None, False  # built: it uses the GPU from now on
        self.tell(json.dumps(task))
        return self

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # libraries say things too
                self.lines.put(json.loads(line))
        self.lines.put({})  # it has ended

    def said(self, seconds):
        """The next that it says, {} if it has ended; None if that takes longer."""
        try:
            return self.lines.get(timeout=max(seconds, 0.01))
        except queue.Empty:
            return None

    def look(self):
        """Sees whether it has found all, and lets it use the GPU when it wants to."""
        if self.found is None:
            self.found = self.said(0.05)
            if self.found and "built" in self.found:
                self.found, self.built = None, True
                self.tell("go")

    def gives_up(self, why):
        self.stop()
        names = self.task["variants"] + ["lamina"] * self.task.get("check", False)
        self.found = {f"{p}:{n}": {"failed": {name: why for name in names}} for p, n in self.task["cells"]}

    def tell(self, line):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def times(self):
        """cell -> variant -> milliseconds"""
        self.tell("go")
        times = self.said(60)
        if not times:
            self.stop()
        return times or {}

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)  # with the compilers that it started

    def stop(self):
        self.signal(signal.SIGKILL)
        self.process.wait()


if __name__ == "__main__":
    main()
