#!/usr/bin/env python3
"""How a plan on a CPU scales with its threads, and what several plans at once do on the same cores, as Markdown tables.

    scripts/race/measure_threads.py --lamina build/release/bin/lamina --model resnet50.onnx
    scripts/race/measure_threads.py --model resnet50.onnx --model mobilenet_v2.onnx --threads 1,2,4,8,16 --batch 1,8

Without --threads: 1, 2, 4 and so on to all that the process may use. Numbers of threads take turns, --rounds of --seconds
each, and each has the 10th percentile of its best round. Several plans at once are a PlanPool that is kept busy: plans
that divide the threads among them, and plans that share one pool of all, and so take turns.
"""

import argparse
import json
import os
import re
import subprocess


def bench(options, model, batch, threads, *more):
    command = [options.lamina, "bench", "model", "--model", model, "--device", "cpu", "--batch", str(batch),
               "--threads", str(threads), "--precision", options.precision, "--seconds", str(options.seconds), *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def p10(options, model, batch, threads):
    text = bench(options, model, batch, threads, "--json", "-")
    return json.loads(text[text.index("{"):])["p10"]


def images_per_second(options, model, batch, threads, plans, share):
    text = bench(options, model, batch, threads, "--plans", str(plans), *(["--share"] if share else []))
    return float(re.search(r"at once: ([0-9.]+) images/s", text)[1])


def scaling(options, model, batch):
    best = {}
    for _ in range(options.rounds):
        for threads in options.threads:
            best[threads] = min(p10(options, model, batch, threads), best.get(threads, float("inf")))
    one = best[options.threads[0]]
    for threads, ms in best.items():
        gain = one / ms
        print(f"| {os.path.basename(model)} | {batch} | {threads} | {ms:.2f} | {gain:.2f} | {gain * options.threads[0] / threads:.2f} |",
              flush=True)


def together(options, model, batch):
    threads = options.threads[-1]
    for plans in (n for n in (1, 2, 4, 8) if n <= max(2, threads)):
        best = {}
        for _ in range(options.rounds):
            # One plan is a pool of one, which is what the others are compared with.
            for share in (False, True) if plans > 1 else (True,):
                rate = images_per_second(options, model, batch, threads, plans, share) if plans > 1 else \
                    1000 * batch / p10(options, model, batch, threads)
                best[share] = max(rate, best.get(share, 0))
        cells = [f"{best[share]:.1f}" if share in best else "" for share in (False, True)]
        print(f"| {os.path.basename(model)} | {batch} | {plans} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--model", action="append", required=True, help="a model file; may be given again")
    parser.add_argument("--threads", help="with commas; the last is what several plans have together")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.threads:
        options.threads = [int(number) for number in options.threads.split(",")]
    else:
        cores = len(os.sched_getaffinity(0))
        options.threads = sorted({1 << i for i in range(cores.bit_length()) if 1 << i <= cores} | {cores})
    batches = [int(number) for number in options.batch.split(",")]
    name = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    print(f"{name[1] if name else 'unknown processor'}, {len(os.sched_getaffinity(0))} cores, {options.precision}\n")
    print("| network | N | threads | ms | times faster | of ideal |\n|---|---|---|---|---|---|")
    for model in options.model:
        for batch in batches:
            scaling(options, model, batch)
    print("\n| network | N | plans at once | images/s, threads divided | images/s, one pool shared |\n|---|---|---|---|---|")
    for model in options.model:
        for batch in batches:
            together(options, model, batch)


if __name__ == "__main__":
    main()
