#!/usr/bin/env python3
"""Races whole networks in Lamina against PyTorch on the same GPU in the same run, checks that they agree, and prints
the ratios.

    scripts/compare_pytorch_model.py --lamina build/release/bin/lamina
    scripts/compare_pytorch_model.py --arch resnet50,timm:convnext_atto --batch 1,32 --precision fp16 --compile 1,32 --results gpu.json
    scripts/compare_pytorch_model.py --results gpu.json --table

Any network of torchvision or timm, with initial weights from a fixed seed, exported to ONNX on the spot. A row is written
to --results as soon as it is measured, and rows that are there already are not measured again. PyTorch runs in a CUDA
graph, in NCHW and in NHWC, with cudnn.benchmark on, in 16 bits for fp16 and bf16 (input included). Lamina's input and
output are f32 in every precision. Times are medians of one call, inputs on the device.

--compile N,... lets torch.compile take part at these batches: plain in both layouts, and with Inductor's "freezing", each
captured in a CUDA graph as well, which is mode="reduce-overhead" without the Python around it. Each precision and batch
is compiled in a process of its own, all of --together networks at once before any of them is timed; one that is not ready
after --compile-limit seconds is out of the race.

Needs PyTorch and torchvision with CUDA. Never needed to build, run or test Lamina.
"""

import argparse
import copy
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

try:
    import torch
    from safetensors.torch import load_file
    from race.networks import build, export
except ImportError as error:
    sys.exit(f"compare_pytorch_model.py: {error}")

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
VARIANTS = {"nchw": ("NCHW", {}), "nhwc": ("NHWC", {}), "frozen": ("NHWC", {"freezing": True})}  # of torch.compile
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 4e-2}  # relative L2 error of the logits


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--arch", type=lambda t: t.split(","), default=["alexnet"], help="names of torchvision, or timm:NAME")
    parser.add_argument("--batch", type=integers, default=[1, 8, 32, 256])
    parser.add_argument("--precision", type=lambda t: t.split(","), default=list(DTYPES))
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure each variant")
    parser.add_argument("--compile", type=integers, default=[], metavar="N,...", nargs="?", const=[1, 256],
                        help="torch.compile too, at these batches (1,256 if none are named)")
    parser.add_argument("--compile-limit", type=float, default=150, help="seconds that compiling may take")
    parser.add_argument("--variants", type=lambda t: t.split(","), default=list(VARIANTS),
                        help="what torch.compile tries, of nchw,nhwc,frozen: a third of the time each")
    parser.add_argument("--together", type=int, default=1, metavar="K", help="networks that are compiled at once")
    parser.add_argument("--skip-pytorch", action="store_true", help="Lamina alone")
    parser.add_argument("--results", help="JSON file that rows are added to")
    parser.add_argument("--table", action="store_true", help="print what --results has as Markdown and measure nothing")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)  # how this script starts itself, see Contestant
    return parser.parse_args()


def integers(text):
    return [int(n) for n in text.split(",")]


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


def measure_pytorch(model, x, a, precision):
    """variant -> milliseconds"""
    set_precision(precision)
    times = {}
    for layout in ("NCHW", "NHWC"):
        net, input = in_layout(model, x, precision, layout)
        times[f"{layout}, CUDA graph"] = time_graph(capture(lambda: net(input)), a.seconds)
    return times


def be_contestant(a):
    """Compiles, says "ready", waits for a line, times, says the times."""
    (arch,), (precision,), (batch,) = a.arch, a.precision, a.batch
    set_precision(precision)
    model, x = build(arch), torch.randn(batch, 3, 224, 224)
    captured = {}
    for layout, options in (VARIANTS[name] for name in a.variants):
        variant = f"{layout}, torch.compile{' frozen' if options else ''}, CUDA graph"
        try:
            net, input = in_layout(model, x, precision, layout)
            torch._dynamo.reset()
            with torch.no_grad():  # freezing does not know inference_mode
                compiled = torch.compile(net, dynamic=False, options=options)
                graph = capture(lambda: compiled(input))
            captured[variant] = (graph, compiled, input)
        except Exception as error:  # the others may do
            print(f"{variant}: {type(error).__name__}: {str(error).strip().splitlines()[0]}", file=sys.stderr)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps({variant: time_graph(graph, a.seconds) for variant, (graph, *_) in captured.items()}), flush=True)


class Contestant:
    """A process that compiles one precision and batch, and times it when asked."""

    def __init__(self, a, arch, precision, batch):
        self.name = f"torch.compile, {arch}, {precision}, N = {batch}"
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--contestant", "yes", "--arch", arch, "--batch", str(batch), "--precision",
             precision, "--seconds", str(a.seconds), "--variants", ",".join(a.variants)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="4"), start_new_session=True)
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


def missing(a, arch, rows):
    """(precision, batch) of the rows of a network that are still to be measured."""
    done = {(row["precision"], row["batch"]) for row in rows if row["arch"] == arch}
    return [(p, n) for n in a.batch for p in a.precision if (p, n) not in done]


def start_contestants(a, archs, rows):
    """(arch, precision, batch) -> Contestant, for those that have compiled in time"""
    if a.skip_pytorch:
        return {}
    begun = time.monotonic()
    started = {(arch, p, n): Contestant(a, arch, p, n)
               for arch in archs for p, n in missing(a, arch, rows) if n in a.compile}
    ready = {key: c for key, c in started.items() if c.wait_until_ready(begun + a.compile_limit)}
    if started:
        print(f"torch.compile: {len(ready)} of {len(started)} ready after {time.monotonic() - begun:.0f} s", flush=True)
    return ready


def run_lamina(a, *arguments):
    done = subprocess.run([a.lamina, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_pytorch_model.py: lamina {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def race(a, arch, rows, contestants):
    """Prints a line for each batch and precision of a network that is not in `rows`, and adds what was measured."""
    wanted = missing(a, arch, rows)
    if not wanted:
        return
    model = build(arch)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        exported, source, result = (Path(folder) / name for name in ("model.onnx", "x.pt", "y.safetensors"))
        with torch.inference_mode(False):
            export(arch, str(exported))
        for batch in dict.fromkeys(n for _, n in wanted):
            x = torch.randn(batch, 3, 224, 224)
            torch.save(x, source)
            truth = copy.deepcopy(model).double().cuda()(x.double().cuda()).cpu()
            for precision in (p for p, n in wanted if n == batch):
                network = ["--model", exported, "--device", "cuda", "--precision", precision]
                measured = json.loads(run_lamina(a, "bench", "model", *network, "--batch", batch, "--seconds", a.seconds,
                                                 "--json", "-"))
                run_lamina(a, "run", *network, "--input", source, "--output", result)
                (logits,) = load_file(result).values()
                error = ((logits.double() - truth).norm() / truth.norm()).item()
                times = {} if a.skip_pytorch else measure_pytorch(model, x, a, precision)
                if (arch, precision, batch) in contestants:
                    times |= contestants[arch, precision, batch].times()
                best = min(times, key=times.get) if times else ""
                theirs = times[best] * 1e3 if times else float("nan")
                ours = measured["ms"] * 1e3
                wrong = "" if error <= TOLERANCE[precision] else "  WRONG"
                print(f"{arch:20} {precision:9} {batch:4}  {ours:9.1f}  {theirs:10.1f}  {theirs / ours:5.2f}x  "
                      f"{error:10.1e}  {best}{wrong}", flush=True)
                rows.append({"arch": arch, "precision": precision, "batch": batch, "lamina": measured,
                             "pytorch": times, "error": error})
                save(a, rows)


def save(a, rows):
    if a.results:
        Path(a.results + ".part").write_text(json.dumps(rows, indent=1), encoding="utf-8")
        os.replace(a.results + ".part", a.results)


def print_table(rows):
    """Markdown: Lamina's microseconds, and in brackets the best of PyTorch's over them, of every precision and batch."""
    columns = sorted({(row["precision"], row["batch"]) for row in rows})
    print("| network | " + " | ".join(f"{p} N = {n}" for p, n in columns) + " |\n|---|" + "---|" * len(columns))
    for arch in dict.fromkeys(row["arch"] for row in rows):
        cells = []
        for key in columns:
            row = next((r for r in rows if r["arch"] == arch and (r["precision"], r["batch"]) == key), None)
            ours = row["lamina"]["ms"] if row else None
            peer = f" ({min(row['pytorch'].values()) / ours:.2f}×)" if row and row["pytorch"] else ""
            cells.append(f"{ours * 1e3:.0f}{peer}" if row else "–")
        print(f"| {arch} | " + " | ".join(cells) + " |")


def main():
    a = parse_arguments()
    rows = json.loads(Path(a.results).read_text(encoding="utf-8")) if a.results and Path(a.results).exists() else []
    if a.table:
        return print_table(rows)
    if not torch.cuda.is_available():
        sys.exit("compare_pytorch_model.py: PyTorch sees no GPU")
    if a.contestant:
        return be_contestant(a)
    begun = time.monotonic()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print(f"{'network':20} {'precision':9} {'N':>4}  {'Lamina us':>9}  {'PyTorch us':>10}  {'ratio':>6}  {'rel. error':>10}  "
          "PyTorch's best")
    for first in range(0, len(a.arch), a.together):
        archs = a.arch[first:first + a.together]
        contestants = start_contestants(a, archs, rows)
        try:
            for arch in archs:
                race(a, arch, rows, contestants)
        finally:
            for contestant in contestants.values():
                contestant.stop()
    print(f"took {time.monotonic() - begun:.0f} s")
    if any(row["error"] > TOLERANCE[row["precision"]] for row in rows):
        sys.exit("compare_pytorch_model.py: results disagree")


if __name__ == "__main__":
    main()
