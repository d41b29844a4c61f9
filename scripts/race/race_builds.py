#!/usr/bin/env python3
"""Times two builds of Lamina beside each other over networks, precisions and batches, and says which cells moved.

    scripts/race/race_builds.py --base old/bin/lamina --lamina build/release/bin/lamina
    scripts/race/race_builds.py --base old/bin/lamina --lamina new/bin/lamina --networks resnet50,swin_t,model.onnx \\
        --precision fp32,bf16 --batch 1,8 --device cpu --jobs 1 --rounds 5

A network is one of `lamina bench model --arch` (random weights), one of tests/golden/structures (weights are drawn into
--work), or a model file. A cell is a network, a precision and a batch; its time the median of `lamina bench model`, on a CPU
the 10th percentile. The builds take turns at the device, now base first, now last. Some --jobs processes load and compile at the same time, and begin
to be timed, one by one, when all of them are ready, so that nothing else runs meanwhile. A cell whose builds differ by more
than half of --tolerance is timed --rounds times more by each, and has each build's best.

Prints a table as cells are done, and in the end those that moved by more than --tolerance percent, with the steps that say
most of it. Exits with 1 if one of them became slower, or could not be timed.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

# Of docs/benchmarks.md.
NETWORKS = ("alexnet vgg16 resnet18 resnet50 resnext50_32x4d mobilenet_v2 mobilenet_v3_large mnasnet1_0 efficientnet_b0 "
            "regnet_y_1_6gf densenet121 googlenet squeezenet1_1 shufflenet_v2_x1_0 convnext_tiny deeplabv3_resnet50 "
            "vit_b_16").split()
SIDES = ("base", "lamina")


@dataclass
class Cell:
    network: str
    precision: str
    batch: int
    times: dict = field(default_factory=lambda: {side: [] for side in SIDES})  # ms
    steps: dict = field(default_factory=dict)  # of the best run of each build
    error: str = ""

    def best(self, side):
        return min(self.times[side])

    def ratio(self):
        """Of the times, above 1 where the new build is slower; nothing where one was not timed."""
        return self.best("lamina") / self.best("base") if all(self.times.values()) else None

    def name(self):
        return f"{self.network} {self.precision} N={self.batch}"


def arguments(argv=None):
    split = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="the lamina command of the build to compare with")
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="that of the new build")
    parser.add_argument("--networks", type=split, default=NETWORKS, help="names and files, with commas; those of docs/benchmarks.md")
    parser.add_argument("--precision", type=split, default=["fp16", "fp32"])
    parser.add_argument("--batch", type=lambda text: [int(n) for n in text.split(",")], default=[1, 32])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--architecture", default="0", help="plan for a GPU of this compute capability, such as 8.0")
    parser.add_argument("--threads", type=int, default=0, help="on a CPU")
    parser.add_argument("--seconds", type=float, default=0.05, help="how long to measure at each turn")
    parser.add_argument("--tolerance", type=float, default=2, help="percent")
    parser.add_argument("--rounds", type=int, default=2, help="more of each build where a cell seems to have moved")
    parser.add_argument("--jobs", type=int, default=0, help="processes that are prepared at once; 0: as many as there are cores, on a CPU 1")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which nothing more is begun")
    parser.add_argument("--work", help="a folder for model files, which stay there; else a temporary one")
    parser.add_argument("--json", help="write all times to this file too")
    options = parser.parse_args(argv)
    options.jobs = options.jobs or (1 if options.device == "cpu" else len(os.sched_getaffinity(0)))
    return options


def sources(options, folder):
    """The option that names each network to `lamina bench model`."""
    import structures  # and NumPy
    result = {}
    for network in options.networks:
        if os.path.exists(network):
            result[network] = ["--model", network]
        elif network in structures.names():
            path = os.path.join(folder, network + ".safetensors")
            if not os.path.exists(path):
                structures.write(network, path)
            result[network] = ["--model", path]
        else:
            result[network] = ["--arch", network]
    return result


class Run:
    """A `lamina bench model` that waits for `go` before it times."""

    def __init__(self, cell, side, source, options, folder, number):
        self.cell, self.side = cell, side
        self.lock = open(os.path.join(folder, f"turn{number}"), "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        command = [getattr(options, side), "bench", "model", *source, "--device", options.device, "--precision", cell.precision,
                   "--batch", str(cell.batch), "--seconds", str(options.seconds), "--threads", str(options.threads),
                   "--architecture", options.architecture,
                   "--turns", self.lock.name, "--json", "-"]
        self.out = tempfile.TemporaryFile("w+", dir=folder)
        self.process = subprocess.Popen(command, stdout=self.out, stderr=subprocess.STDOUT)
        self.on_cpu = options.device == "cpu"
        self.spent, self.since = -1, time.monotonic()

    def ready(self):
        """Whether it waits: its processor time has stood still, or it has ended."""
        if self.process.poll() is not None:
            return True
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        spent = int(fields[11]) + int(fields[12])
        if spent != self.spent or fields[0] not in "SD":
            self.spent, self.since = spent, time.monotonic()
        return time.monotonic() - self.since > 0.3

    def go(self):
        self.lock.close()
        failed = self.process.wait()
        self.out.seek(0)
        text = self.out.read()
        self.out.close()
        if failed:
            self.cell.error = f"{self.side}: {' '.join(text.split())[-300:]}"
            return
        said = json.loads(text[text.index("{"):])
        milliseconds = said["p10" if self.on_cpu else "ms"]
        if milliseconds < min(self.cell.times[self.side], default=float("inf")):
            self.cell.steps[self.side] = said.get("steps", [])
        self.cell.times[self.side].append(milliseconds)


def race(cells, rounds, named, options, folder):
    """Each cell `rounds` times: as many processes at once as --jobs says, all of a cell among them."""
    at_once = max(1, options.jobs // (2 * rounds))
    for first in range(0, len(cells), at_once):
        if time.monotonic() - options.start > options.limit:
            return
        wave = cells[first:first + at_once]
        order = [(cell, side) for c, cell in enumerate(wave) for i in range(rounds) for side in SIDES[::1 if (c + i) % 2 == 0 else -1]]
        runs = [Run(cell, side, named[cell.network], options, folder, i) for i, (cell, side) in enumerate(order)]
        while not all([run.ready() for run in runs]):
            time.sleep(0.02)
        for run in runs:
            run.go()
        for cell in wave:
            yield cell


def percent(ratio):
    return f"{100 * (ratio - 1):+.1f} %"


def explanation(cell, most=3):
    """The steps whose times differ most, as the builds see them one by one."""
    named = [{(step["name"], step["fused"]): step for step in cell.steps.get(side, [])} for side in SIDES]
    both = sorted(named[0].keys() & named[1].keys(), key=lambda key: -abs(named[1][key]["ms"] - named[0][key]["ms"]))
    lines = [f"    {key[0]}: {named[0][key]['ms'] * 1e3:.1f} -> {named[1][key]['ms'] * 1e3:.1f} us, {named[0][key]['kernel']}"
             + (f" -> {named[1][key]['kernel']}" if named[0][key]["kernel"] != named[1][key]["kernel"] else "")
             for key in both[:most]]
    if named[0].keys() != named[1].keys():
        lines.append(f"    fused otherwise: {len(named[0].keys() - named[1].keys())} steps of {len(named[0])} are others of {len(named[1])}")
    return "\n".join(lines)


def main():
    options = arguments()
    options.start = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or temporary
        os.makedirs(folder, exist_ok=True)
        named = sources(options, folder)
        cells = [Cell(n, p, b) for n in options.networks for p in options.precision for b in options.batch]
        print(f"base {options.base}, new {options.lamina}, {options.device}; us\n")
        print("| network | precision | N | base | new | new / base |\n|---|---|---|---|---|---|")
        for cell in race(cells, 1, named, options, temporary):
            if cell.ratio() and abs(cell.ratio() - 1) * 100 <= options.tolerance / 2:
                show(cell)
        again = [cell for cell in cells if cell.ratio() and abs(cell.ratio() - 1) * 100 > options.tolerance / 2]
        for _ in race(again, options.rounds, named, options, temporary) if options.rounds else []:
            pass
    for cell in again:
        show(cell)
    if options.json:
        with open(options.json, "w") as file:
            json.dump([cell.__dict__ for cell in cells], file, indent=1)
    return conclude(cells, options)


def show(cell):
    print(f"| {os.path.basename(cell.network)} | {cell.precision} | {cell.batch} | {cell.best('base') * 1e3:.1f} | "
          f"{cell.best('lamina') * 1e3:.1f} | {cell.ratio():.3f} |", flush=True)


def conclude(cells, options):
    moved = sorted((cell for cell in cells if cell.ratio() and abs(cell.ratio() - 1) * 100 > options.tolerance), key=lambda c: -c.ratio())
    failed = [cell for cell in cells if cell.ratio() is None]
    print(f"\n{len(cells) - len(failed)} cells in {time.monotonic() - options.start:.0f} s; {len(moved)} moved by more than {options.tolerance:g} %")
    for cell in moved:
        print(f"{'slower' if cell.ratio() > 1 else 'faster'}: {cell.name()}: {cell.best('base') * 1e3:.1f} -> "
              f"{cell.best('lamina') * 1e3:.1f} us, {percent(cell.ratio())}\n{explanation(cell)}")
    for cell in failed:
        print(f"not timed: {cell.name()}{': ' + cell.error if cell.error else ''}")
    return 1 if failed or any(cell.ratio() > 1 for cell in moved) else 0


if __name__ == "__main__":
    sys.exit(main())
