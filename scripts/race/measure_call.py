#!/usr/bin/env python3
"""What calling a Plan from Python costs: medians of many calls with out=, of the digits' network and of a network of
nothing, whose call is all there is to time.

    scripts/race/measure_call.py [--device cpu] [--threads 1] [--calls 100000]
"""

import argparse
import time
from pathlib import Path

import lamina
import numpy as np

ROOT = Path(__file__).parents[2]


def measure(what, plan, calls, x, out):
    times = np.empty(calls)
    now = time.perf_counter_ns
    for i in range(calls):
        start = now()
        plan(x, out=out)
        times[i] = now() - start
    low, middle = np.percentile(times, (10, 50)) / 1e3
    print(f"{what}: median {middle:.2f} us, tenth {low:.2f} us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--calls", type=int, default=100_000)
    options = vars(parser.parse_args())
    calls = options.pop("calls")
    digits = lamina.load(ROOT / "weights/digits.safetensors")
    nothing = lamina.Graph()
    nothing.output(nothing.add("same", "flatten", nothing.input("x", ("N", 10))))
    x, y = np.zeros((1, 3, 32, 32), np.float32), np.empty((1, 10), np.float32)
    print(lamina.describe(options["device"]))
    measure("the digits' network", digits.compile(**options), calls, x, y)
    measure("nothing", nothing.compile(**options), calls, y.copy(), y)


if __name__ == "__main__":
    main()
