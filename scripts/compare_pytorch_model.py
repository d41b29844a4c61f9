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

--compile N,... lets torch.compile take part at these batches, plain in both layouts and with Inductor's "freezing", each
captured in a CUDA graph as well, which is mode="reduce-overhead" without the Python around it; --jax N,... JAX, timed as
calls one after another. Each precision and batch is compiled in a process of its own, all of --together networks at once
before any of them is timed, while they are exported; one that is not ready after --compile-limit seconds is out of the race.

Needs PyTorch and torchvision with CUDA. Never needed to build, run or test Lamina.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

try:
    import torch
    from safetensors.torch import load_file
    from race.contestant import DTYPES, VARIANTS, Contestant, capture, in_layout, set_precision, time_graph
    from race.networks import build, export
except ImportError as error:
    sys.exit(f"compare_pytorch_model.py: {error}")

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
    parser.add_argument("--variants", type=lambda t: t.split(","), default=["nchw", "nhwc", "frozen"],
                        help="how torch.compile takes part, of nchw,nhwc,frozen,autotune (default: all but autotune)")
    parser.add_argument("--jax", type=integers, default=[], metavar="N,...", help="JAX too, at these batches")
    parser.add_argument("--together", type=int, default=1, metavar="K", help="networks that are exported and compiled at once")
    parser.add_argument("--skip-pytorch", action="store_true", help="Lamina alone")
    parser.add_argument("--results", help="JSON file that rows are added to")
    parser.add_argument("--table", action="store_true", help="print what --results has as Markdown and measure nothing")
    return parser.parse_args()


def integers(text):
    return [int(n) for n in text.split(",")]


def measure_pytorch(model, x, a, precision):
    """variant -> milliseconds"""
    set_precision(precision)
    times = {}
    for layout in ("NCHW", "NHWC"):
        net, input = in_layout(model, x, precision, layout)
        times[f"{layout}, CUDA graph"] = time_graph(capture(lambda: net(input)), a.seconds)
    return times


def missing(a, arch, rows):
    """(precision, batch) of the rows of a network that are still to be measured."""
    done = {(row["precision"], row["batch"]) for row in rows if row["arch"] == arch}
    return [(p, n) for n in a.batch for p in a.precision if (p, n) not in done]


def start_contestants(a, archs, rows):
    """(arch, precision, batch) -> what has compiled in time for it"""
    if a.skip_pytorch:
        return {}
    begun = time.monotonic()
    started = {(arch, p, n): [Contestant(a, arch, p, n, variants) for variants, batches in
                              ((a.variants, a.compile), (["jax"], a.jax)) if n in batches]
               for arch in archs for p, n in missing(a, arch, rows)}
    ready = {key: [c for c in some if c.wait_until_ready(begun + a.compile_limit)] for key, some in started.items()}
    if any(started.values()):
        count = [sum(map(len, d.values())) for d in (ready, started)]
        print(f"compiled: {count[0]} of {count[1]} ready after {time.monotonic() - begun:.0f} s", flush=True)
    return ready


def run_lamina(a, *arguments):
    done = subprocess.run([a.lamina, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_pytorch_model.py: lamina {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def race(a, arch, exported, rows, contestants):
    """Prints a line for each batch and precision of a network that is not in `rows`, and adds what was measured."""
    wanted = missing(a, arch, rows)
    model = build(arch)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        source, result = (Path(folder) / name for name in ("x.pt", "y.safetensors"))
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
                for contestant in contestants.get((arch, precision, batch), []):
                    times |= contestant.times()
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
    begun = time.monotonic()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print(f"{'network':20} {'precision':9} {'N':>4}  {'Lamina us':>9}  {'PyTorch us':>10}  {'ratio':>6}  {'rel. error':>10}  "
          "PyTorch's best")
    for first in range(0, len(a.arch), a.together):
        archs = [arch for arch in a.arch[first:first + a.together] if missing(a, arch, rows)]
        with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(mp_context=get_context("spawn")) as exporters:
            files = {arch: os.path.join(folder, f"{i}.onnx") for i, arch in enumerate(archs)}
            exports = {arch: exporters.submit(export, arch, file) for arch, file in files.items()}
            contestants = start_contestants(a, archs, rows)
            try:
                for arch in archs:
                    exports[arch].result()
                    race(a, arch, files[arch], rows, contestants)
            finally:
                for contestant in sum(contestants.values(), []):
                    contestant.stop()
    print(f"took {time.monotonic() - begun:.0f} s")
    if any(row["error"] > TOLERANCE[row["precision"]] for row in rows):
        sys.exit("compare_pytorch_model.py: results disagree")


if __name__ == "__main__":
    main()
