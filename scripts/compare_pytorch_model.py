#!/usr/bin/env python3
"""Races whole networks in Lamina against PyTorch on the same GPU in the same run, checks that they agree, and prints
the ratios.

    scripts/compare_pytorch_model.py --lamina build/release/bin/lamina
    scripts/compare_pytorch_model.py --arch many --batch 1,32 --precision fp16 --variants graph,frozen --limit 450 --results gpu.json --steps steps.txt
    scripts/compare_pytorch_model.py --arch others --batch 1,32 --precision fp16 --variants graph --search 3 --seconds 0.05 --limit 545 --results others.json
    scripts/compare_pytorch_model.py --arch resnet50,vgg16,mobilenet_v2,convnext_tiny --batch 1,32 --precision fp16 --variants graph,frozen,cudnn
    scripts/compare_pytorch_model.py --results gpu.json --table

Any network of torchvision or timm, with initial weights from a fixed seed, exported to ONNX on the spot; "many" are the
some forty of race/networks.py, "others" what coverage.py has beside them, in an order that makes those that a --limit leaves
a fair sample. A row is written to --results as soon as it is measured, and rows that are there already
and complete are not measured again. PyTorch runs in a CUDA graph, with cudnn.benchmark on, in 16 bits for fp16 and bf16 (input
included). Lamina's input and output are f32 in every precision. Times are medians of one call, inputs on the device.

--variants: PyTorch as it is, channels last (graph) or not (graph_nchw), and by torch.compile, plain (nhwc, nchw), with
Inductor's "freezing" (frozen) and max-autotune as well (autotune), which in a CUDA graph is mode="reduce-overhead" without
the Python around it; JAX (jax), timed as calls one after another; and cuDNN's graph API (cudnn: race/cudnn_contestant.py).
Each network has a process of its own, or each variant at each batch where there are cores for that, which exports, checks the answers and compiles. --together of
them do so at once, and as soon as half as many are ready these are timed, one after another, while those stand still that
use the GPU by then.

Needs PyTorch and torchvision, timm for its networks, nvidia-cudnn-frontend for cudnn. Never needed to build, run or test Lamina.
"""

import argparse
import json
import math
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

try:
    from race.contestant import DTYPES, VARIANTS, Contestant, turn
    from race.lamina_bench import Bench, wait_until_loaded
    from race.networks import MANY, others
except ImportError as error:
    sys.exit(f"compare_pytorch_model.py: {error}")

# Variants that have a process of their own.
PROGRAMS = {"jax": "race.jax_contestant", "cudnn": "race.cudnn_contestant"}
TIMED_AT_ONCE = 8  # networks that Lamina has loaded while others wait for their turn
# Relative L2 error of the answers; or twice what PyTorch itself has, in networks that are more chaotic than most.
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 4e-2}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--arch", type=lambda t: {"many": lambda: MANY, "others": others}.get(t, lambda: t.split(","))(),
                        default=["alexnet"], help="names of torchvision, or timm:NAME; or many, or others")
    parser.add_argument("--batch", type=lambda t: [int(n) for n in t.split(",")], default=[1, 8, 32, 256])
    parser.add_argument("--precision", type=lambda t: t.split(","), default=list(DTYPES))
    parser.add_argument("--variants", type=lambda t: t.split(",") if t else [], default=["graph_nchw", "graph", "nchw", "nhwc", "frozen"],
                        help=f"who takes part beside Lamina, of {','.join([*VARIANTS, *PROGRAMS])}; '' is nobody (default: the first five)")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu is to try this out")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure each")
    parser.add_argument("--search", type=int, default=10, metavar="K", help="plans of cuDNN that PyTorch tries for a convolution")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds for everything: rows that are missing then are left out")
    parser.add_argument("--compile-limit", type=float, default=150, help="seconds that preparing a network may take")
    parser.add_argument("--together", type=int, default=os.cpu_count(), metavar="K", help="networks that are prepared at once")
    parser.add_argument("--results", help="JSON file that rows are added to")
    parser.add_argument("--steps", help="file to write Lamina's steps to where it loses, slowest first")
    parser.add_argument("--table", action="store_true", help="print what --results has as Markdown and measure nothing")
    return parser.parse_args()


def cells_to_measure(a, arch, rows):
    """(precision, batch) of the rows of a network that are still missing."""
    done = {(row["precision"], row["batch"]) for row in rows if row["arch"] == arch and not row.get("failed")}
    return [(p, n) for n in a.batch for p in a.precision if (p, n) not in done]


class Waiting:
    """Networks that are prepared and then timed, in waves."""

    def __init__(self, a, folder, rows):
        self.a, self.rows, self.turns = a, rows, f"{folder}/turns"
        self.begun = time.monotonic()
        failed = {row["arch"] for row in rows if row["failed"]}
        self.left = [self.task(arch, folder) for arch in sorted(a.arch, key=failed.__contains__) if cells_to_measure(a, arch, rows)]
        self.preparing, self.ready = {}, {}  # arch -> [Contestant, ...], and since when
        self.idle = []  # Contestants that are done with theirs

    def task(self, arch, folder):
        return {"arch": arch, "cells": cells_to_measure(self.a, arch, self.rows), "folder": folder, "turns": self.turns,
                "lamina": os.path.abspath(self.a.lamina), "device": self.a.device, "seconds": self.a.seconds, "search": self.a.search}

    def seconds_left(self):
        return self.begun + self.a.limit - time.monotonic()

    def start(self):
        while self.left and len(self.preparing) < self.a.together:
            task = self.left.pop(0)
            mine = [name for name in self.a.variants if name in VARIANTS]
            alone = len(self.a.arch) * len(task["cells"]) <= self.a.together  # there are cores for each variant of each cell
            cells = [[cell] for cell in task["cells"]] if alone else [task["cells"]]
            names = [[name] for name in mine] if alone and mine else [mine]
            task["until"] = time.monotonic() + 0.8 * self.a.compile_limit
            some = [(self.idle.pop() if self.idle else Contestant("race.contestant")).begin(
                        task | {"cells": c, "variants": n, "check": n is names[0]}) for c in cells for n in names]
            some += [Contestant(PROGRAMS[name]).begin(task | {"cells": c, "variants": [name]})
                     for name in self.a.variants if name in PROGRAMS for c in cells]
            self.preparing[task["arch"]] = some, time.monotonic()

    def look(self):
        """Sees who is ready by now."""
        for arch, (some, since) in list(self.preparing.items()):
            late = time.monotonic() - since > self.a.compile_limit
            for contestant in some:
                contestant.look()
            if late or all(c.found is not None for c in some):
                del self.preparing[arch]
                self.ready[arch] = some
                for contestant in some:
                    if not contestant.found:
                        contestant.gives_up("not prepared in time" if contestant.found is None else "cannot be prepared")

    def time_ready(self):
        """Times all that are ready, while others that use the GPU stand still."""
        print(f"  {len(self.ready)} networks are ready after {time.monotonic() - self.begun:.0f} s", flush=True)
        with turn(self.turns):
            others = [c for some, _ in self.preparing.values() for c in some if c.built]
            stopped = time.monotonic()
            for contestant in others:
                contestant.signal(signal.SIGSTOP)
            while self.ready and self.seconds_left() > 0:
                now = [arch for arch in self.a.arch if arch in self.ready][:TIMED_AT_ONCE]
                facts = {arch: facts_of(self.ready[arch]) for arch in now}
                benches = {(arch, cell): Bench(self.a.lamina, f["file"], self.a.device, self.a.seconds, *cell.split(":"))
                           for arch in now for cell, f in facts[arch].items() if "file" in f}
                wait_until_loaded(benches.values())
                for arch in now:
                    if self.seconds_left() > 0:
                        some = self.ready.pop(arch)
                        race(self.a, arch, facts[arch], benches, some, self.rows)
                        failed = any(f["failed"] for f in facts[arch].values())  # an error of CUDA's would stay
                        for contestant in some:
                            if failed or contestant.program != "race.contestant":
                                contestant.stop()
                            elif contestant.process.poll() is None:
                                self.idle.append(contestant)
                for bench in benches.values():
                    bench.process.kill()
            for contestant in others:
                contestant.signal(signal.SIGCONT)
            stopped = time.monotonic() - stopped
            self.preparing = {arch: (some, since + stopped) for arch, (some, since) in self.preparing.items()}

    def run(self):
        while (self.left or self.preparing or self.ready) and self.seconds_left() > 0:
            self.start()
            self.look()
            # What is ready takes some 2 s a network.
            full = len(self.ready) >= self.a.together / 2 or self.seconds_left() < 8 + 2 * len(self.ready)
            if self.ready and (full or not (self.preparing or self.left)):
                self.time_ready()

    def stop(self):
        for contestant in sum([some for some, _ in self.preparing.values()], []) + sum(self.ready.values(), []) + self.idle:
            contestant.stop()


def facts_of(contestants):
    """cell -> what its contestants found while they prepared it"""
    found = {}
    for contestant in contestants:
        for cell, facts in contestant.found.items():
            known = found.setdefault(cell, {"errors": {}, "failed": {}})
            for key, value in facts.items():
                known[key] = known[key] | value if isinstance(value, dict) else value
    return found


def race(a, arch, found, benches, contestants, rows):
    """Prints a line for each batch and precision of a network, and adds what was measured. found: its facts_of."""
    measured = {}
    for cell, facts in found.items():
        try:
            if "file" in facts:
                measured[cell] = benches[arch, cell].time()
        except RuntimeError as error:
            facts["failed"]["lamina"] = str(error)[-300:]
    times = [contestant.times() for contestant in contestants]
    for cell, facts in found.items():
        precision, batch = cell.split(":")
        peers = {name: ms for all_cells in times for name, ms in all_cells.get(cell, {}).items()}
        row = {"arch": arch, "precision": precision, "batch": int(batch), "lamina": measured.get(cell), "pytorch": peers,
               "error": facts.get("error"), "errors": facts["errors"], "failed": facts["failed"], "notes": facts.get("notes")}
        if ratio(row) and ratio(row) >= 1:
            del row["lamina"]["steps"]  # --steps is about where it loses
        rows[:] = [r for r in rows if any(r[key] != row[key] for key in ("arch", "precision", "batch"))] + [row]
        save(a, rows)
        print(line(row), flush=True)


def ratio(row):
    """None where somebody is missing."""
    return min(row["pytorch"].values()) / row["lamina"]["ms"] if row["lamina"] and row["pytorch"] else None


def wrong(row):
    own = max((e for e in row.get("errors", {}).values() if math.isfinite(e)), default=0)
    return row["lamina"] is not None and not row["error"] <= max(TOLERANCE[row["precision"]], 2 * own)


def line(row):
    cells = [f"{row['arch'].removeprefix('timm:'):24} {row['precision']:4} {row['batch']:4}"]
    cells.append(f"{row['lamina']['ms'] * 1e3:9.1f}" if row["lamina"] else f"{'-':>9}")
    cells.append(f"{min(row['pytorch'].values()) * 1e3:10.1f}" if row["pytorch"] else f"{'-':>10}")
    cells.append(f"{ratio(row):5.2f}x" if ratio(row) else f"{'-':>6}")
    cells.append(f"{row['error']:10.1e}" if row["error"] is not None else f"{'-':>10}")
    peers = sorted(row["pytorch"].items(), key=lambda peer: peer[1])
    cells.append(peers[0][0] if len(peers) == 1 else ", ".join(f"{name} {ms * 1e3:.1f}" for name, ms in peers) or "-")
    notes = [row["notes"]] if row.get("notes") else []
    return "  ".join(cells + ["WRONG"] * wrong(row) + [f"({name}: {said})" for name, said in row["failed"].items()] + notes)


def save(a, rows):
    if a.results:
        Path(a.results + ".part").write_text(json.dumps(rows, indent=1), encoding="utf-8")
        os.replace(a.results + ".part", a.results)


def print_table(rows):
    """Markdown: Lamina's microseconds, and in brackets the best of PyTorch's over them, of every precision and batch."""
    columns = sorted({(row["precision"], row["batch"]) for row in rows})
    print("\n| network | " + " | ".join(f"{p} N = {n}" for p, n in columns) + " |\n|---|" + "---|" * len(columns))
    for arch in dict.fromkeys(row["arch"] for row in rows):
        cells = []
        for key in columns:
            row = next((r for r in rows if r["arch"] == arch and (r["precision"], r["batch"]) == key and r["lamina"]), None)
            cells.append("–" if not row else f"{row['lamina']['ms'] * 1e3:.0f}" + (f" ({ratio(row):.2f}×)" if ratio(row) else ""))
        print(f"| {arch.removeprefix('timm:')} | " + " | ".join(cells) + " |")
    print()
    for key in columns:
        ratios = sorted(r for r in (ratio(row) for row in rows if (row["precision"], row["batch"]) == key) if r)
        if ratios:
            print(f"{key[0]}, N = {key[1]}: {len(ratios)} networks, geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, "
                  f"least {ratios[0]:.2f}, {sum(r >= 1 for r in ratios)} not behind")


def write_steps(path, rows):
    """Lamina's steps of the rows that it loses, slowest first."""
    with open(path, "w", encoding="utf-8") as file:
        for row in sorted((r for r in rows if ratio(r) and ratio(r) < 1), key=ratio):
            steps = row["lamina"]["steps"]
            whole = sum(step["ms"] for step in steps)
            file.write(f"{line(row)}\n  {len(steps)} steps; by themselves they take {whole * 1e3:.0f} us\n")
            for step in sorted(steps, key=lambda step: -step["ms"]):
                rates = f"{step['flops'] / step['ms'] / 1e9:6.1f} TFLOP/s {step['bytes'] / step['ms'] / 1e6:7.0f} GB/s"
                file.write(f"  {step['ms'] * 1e3:8.1f} {100 * step['ms'] / whole:5.1f} %  {rates}  {step['name']}"
                           f"{' + ' + step['fused'] if step['fused'] else ''} | {step['kernel']}\n")
            file.write("\n")


def main():
    a = parse_arguments()
    rows = json.loads(Path(a.results).read_text(encoding="utf-8")) if a.results and Path(a.results).exists() else []
    begun = time.monotonic()
    if not a.table:
        import torch
        if a.device == "cuda" and not torch.cuda.is_available():
            sys.exit("compare_pytorch_model.py: PyTorch sees no GPU")
        if a.device == "cuda":
            print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
        print(f"{'network':24} {'':4} {'N':>4}  {'Lamina us':>9}  {'PyTorch us':>10}  {'ratio':>6}  {'rel. error':>10}  PyTorch's, best first", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            waiting = Waiting(a, folder, rows)
            try:
                waiting.run()
            finally:
                waiting.stop()
    print_table(rows)
    if a.steps:
        write_steps(a.steps, rows)
    missing = [f"{arch} {p} N = {n}" for arch in a.arch for p, n in cells_to_measure(a, arch, rows)] if not a.table else []
    if missing:
        print(f"not measured, or not whole: {len(missing)} cells: {', '.join(missing)[:300]}")
    print(f"took {time.monotonic() - begun:.0f} s")
    if any(wrong(row) for row in rows):
        sys.exit("compare_pytorch_model.py: results disagree")


if __name__ == "__main__":
    main()
