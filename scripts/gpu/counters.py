#!/usr/bin/env python3
"""Says what limits a command's slowest kernels: counters of Nsight Compute, a row of a Markdown table for each.

    scripts/gpu/counters.py --launches 60 -- lamina bench model --model resnet50.onnx --batch 256 --precision fp16 \\
        --device cuda --seconds 0.01

Profiles the first kernels that the command launches, as many as --launches says, behind those that it is to --skip: a
run of a plan, or one of its blocks. Clocks are left as they are, and caches as a kernel's own repetitions leave them,
so what fits into L2 comes from there. Launches of one kernel on grids of one size are one row: the mean of each
counter. Needs ncu, and the right to read the GPU's counters.
"""

import argparse
import csv
import io
import re
import subprocess
import sys

STALL = re.compile(r"smsp__average_warps_issue_stalled_(.+)_per_issue_active\.ratio$")
TIME = "gpu__time_duration.sum"
COLUMNS = {
    "us": TIME,
    "SM %": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor %": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "L2 %": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "blocks": "launch__grid_size",
    "waves": "launch__waves_per_multiprocessor",
}
MICROSECONDS = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6, "nsecond": 1e-3, "usecond": 1, "msecond": 1e3, "second": 1e6}


def profile(skip, launches, only, command):
    """A dictionary for each launch, by counter, times in microseconds."""
    ncu = ["ncu", "--csv", "--page", "raw", "--clock-control", "none", "--cache-control", "none"]
    ncu += ["--launch-skip", str(skip), "--launch-count", str(launches), "--kill", "yes"]
    ncu += ["--section", "WarpStateStats", "--metrics", ",".join(COLUMNS.values())]
    if only:
        ncu += ["--kernel-name", f"regex:{only}"]
    run = subprocess.run(ncu + command, capture_output=True, text=True)
    lines = [line for line in run.stdout.splitlines() if line.startswith('"')]
    if not lines:
        sys.exit(f"ncu printed no table: {(run.stdout + run.stderr).strip()[-800:]}")
    units, *kernels = csv.DictReader(io.StringIO("\n".join(lines)))
    for kernel in kernels:
        kernel[TIME] = str(number(kernel[TIME]) * MICROSECONDS[units[TIME]])
    return kernels


def number(text):
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return float("nan")


def short(name):
    """A kernel's name with the arguments of its template, without those of the function and all namespaces."""
    name = re.sub(r"\((?:int|bool|unsigned int|(?:\w+::)+\w+)\)|^void ", "", name)
    return re.sub(r"(?:\w+::|<?unnamed>::|\(anonymous namespace\)::)+", "", re.sub(r"\([^()]*\)$", "", name))


def row(name, group, total):
    mean = {key: sum(number(k.get(key)) for k in group) / len(group) for key in group[0] if key}
    share = 100 * len(group) * mean[TIME] / total
    cells = [name, f"`{short(group[0]['Kernel Name'])}`", f"{len(group)}, {share:.0f} %"]
    cells += [f"{v:.0f}" if v >= 100 else f"{v:.2g}" for v in (mean.get(key, float("nan")) for key in COLUMNS.values())]
    stalls = {m[1]: value for key, value in mean.items() if (m := STALL.match(key)) and value > 0}
    stalls.pop("selected", None)
    all_stalls = sum(stalls.values())
    worst = sorted(stalls, key=stalls.get, reverse=True)[:2]
    cells.append(", ".join(f"{w.replace('_', ' ')} {100 * stalls[w] / all_stalls:.0f} %" for w in worst))
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=100, help="kernels that are profiled")
    parser.add_argument("--skip", type=int, default=0, help="kernels before them")
    parser.add_argument("--top", type=int, default=3, help="rows")
    parser.add_argument("--only", default="", help="of kernels whose name matches this expression")
    parser.add_argument("--name", default="", help="the first cell of each row; by itself with no heading above")
    parser.add_argument("command", nargs="+", help="behind --")
    arguments = parser.parse_args()
    groups = {}
    kernels = profile(arguments.skip, arguments.launches, arguments.only, arguments.command)
    for kernel in kernels:
        groups.setdefault((kernel["Kernel Name"], kernel[COLUMNS["blocks"]]), []).append(kernel)
    if not arguments.name:
        headings = ["", "kernel", "launches, of these' time", *COLUMNS, "most stalled by"]
        print("| " + " | ".join(headings) + " |\n|" + "---|" * len(headings))
    total = sum(number(k[TIME]) for k in kernels)
    slowest = sorted(groups.values(), key=lambda group: -sum(number(k[TIME]) for k in group))
    for group in slowest[: arguments.top]:
        print(row(arguments.name, group, total), flush=True)


if __name__ == "__main__":
    main()
