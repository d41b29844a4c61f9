#!/usr/bin/env python3
"""Says of networks which steps take longest beyond what their bytes and products need, kernel by kernel: where to look first.

    scripts/race/slow_steps.py --lamina build/hopper/bin/lamina --arch timm:gmlp_s16_224,timm:coat_tiny,resnet50
    scripts/race/slow_steps.py --device cpu --precision fp32 --batch 1 --rate 0.02 --products 0.0002 --arch resnet18

What a step needs is the most of --least µs, its bytes at --rate TB/s and its operations at --products PFLOP/s (of an H200 in
16 bits, unless told). Networks are exported by --jobs processes at once, and timed one after another, some of them loaded
while others wait. No other engine takes part: compare_pytorch_model.py races.

Needs PyTorch and torchvision, timm for its networks.
"""

import argparse
import os
import re
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from race import networks  # noqa: E402
from race.lamina_bench import Bench, wait_until_loaded  # noqa: E402

AT_ONCE = 12  # networks that are loaded while others are timed


def parse_arguments():
    split = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--arch", type=split, required=True, help="names of torchvision, or timm:NAME")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--batch", type=split, default=["1", "32"])
    parser.add_argument("--seconds", default="0.1", help="how long to measure each (%(default)s)")
    parser.add_argument("--least", type=float, default=2, metavar="US", help="that every step needs (%(default)s)")
    parser.add_argument("--rate", type=float, default=3, metavar="TB/S", help="of memory (%(default)s)")
    parser.add_argument("--products", type=float, default=0.5, metavar="PFLOP/S", help="(%(default)s)")
    parser.add_argument("--kernels", type=int, default=4, metavar="K", help="that are printed of each network (%(default)s)")
    parser.add_argument("--jobs", type=int, default=max(os.cpu_count() - 2, 1), help="exports at once (%(default)s)")
    parser.add_argument("--work", type=Path, default="build/slow_steps", help="where exported networks are kept (%(default)s)")
    return parser.parse_args()


def exported(work, name):
    """The file, and what went wrong."""
    os.environ["OMP_NUM_THREADS"] = "1"
    file = work / (name.replace("timm:", "") + ".onnx")
    try:
        if not file.exists():
            networks.export(name, str(file))
    except Exception as error:  # one network of many
        return name, None, " ".join(str(error).split())[:200]
    return name, file, ""


def show(name, batch, found, a):
    lost = defaultdict(lambda: [0.0, 0, 0.0, ""])  # µs, steps, of the worst, what that is
    for step in found["steps"]:
        us = step["ms"] * 1000
        beyond = us - max(a.least, step["bytes"] / a.rate / 1e6, step["flops"] / a.products / 1e9)
        entry = lost[re.split(r"[:,]", step["kernel"])[0]]
        entry[0], entry[1] = entry[0] + max(beyond, 0), entry[1] + 1
        if beyond > entry[2]:
            entry[2:] = beyond, f"{us:.1f} us, {step['bytes'] / 1e6:.1f} MB, {step['flops'] / 1e9:.1f} GFLOP: {step['name'][-60:]}"
    print(f"{name} N = {batch}: {found['ms'] * 1000:.0f} us, {len(found['steps'])} steps", flush=True)
    for kernel, (us, steps, _, worst) in sorted(lost.items(), key=lambda entry: -entry[1][0])[:a.kernels]:
        print(f"  {us:8.0f} us in {steps:3} of {kernel:34} the worst: {worst}", flush=True)


def main():
    a = parse_arguments()
    a.work.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(a.jobs) as pool:
        files = list(pool.map(partial(exported, a.work), a.arch))
    for name, _, error in files:
        if error:
            print(f"{name}: not exported: {error}", flush=True)
    cells = [(name, batch, file) for name, file, error in files if not error for batch in a.batch]
    for first in range(0, len(cells), AT_ONCE):
        waiting = [(name, batch, Bench(a.lamina, str(file), a.device, a.seconds, a.precision, batch))
                   for name, batch, file in cells[first:first + AT_ONCE]]
        wait_until_loaded([bench for _, _, bench in waiting])
        for name, batch, bench in waiting:
            try:
                show(name, batch, bench.time(), a)
            except RuntimeError as error:
                print(f"{name} N = {batch}: {error}", flush=True)


if __name__ == "__main__":
    main()
