#!/usr/bin/env python3
"""Every network of coverage.py on a GPU beside PyTorch as most people run it: eager, fp16, channels last.

    scripts/race/compare_eager.py --lamina build/release/bin/lamina           # some six minutes on 16 cores
    scripts/race/compare_eager.py --only timm/ --batch 32
    scripts/race/compare_eager.py --table                                     # what was measured so far, as Markdown

A network is built with initial weights, and batch norms' statistics from a random input, without which values overflow
in 16 bits. It is exported by torch.onnx.export in a process of its own, as many at a time as --jobs says; at the GPU
they take turns, one timing at a time. Lamina's time is that of `lamina bench model`, PyTorch's the median of calls
between two events, both with inputs on the device. PyTorch is as it comes: torch.inference_mode, no cudnn.benchmark. At
N = 1 it waits for the CPU that launches its kernels, so there its time depends on the CPU, and on what else keeps it
busy: with --jobs 1 nothing does. Lamina's steps are kept, a JSON file for each network and batch.

A case has passed if Lamina is faster at every batch, is wrong if it is not, and refused if there is no comparison. A
run goes on where the last one of the same lamina stopped. Needs torch with CUDA, torchvision, timm, onnx, NumPy.
"""

import argparse
import fcntl
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import suite  # noqa: E402

OPSET = 17
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    suite.add_options(parser, Path("build/eager"))
    parser.set_defaults(device="cuda")
    parser.add_argument("--sets", type=lambda t: t.split(","), default=["classification", "segmentation", "timm"])
    parser.add_argument("--batch", type=lambda t: [int(n) for n in t.split(",")], default=[1, 32])
    parser.add_argument("--precision", choices=DTYPES, default="fp16")
    parser.add_argument("--seconds", type=float, default=0.05, help="how long to measure each")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one network")
    parser.add_argument("--table", action="store_true", help="measure nothing, print what is there")
    return parser.parse_args()


# --- one network, in a process of its own ------------------------------------------------------------------------------


@functools.cache
def export(module, shape, path, batch):
    """Writes the network for a batch, or for any if that is None; returns what was said if it cannot."""
    import torch
    axes = {} if batch else {"dynamic_axes": {"x": {0: "N"}}}
    try:
        # With gradients, as without them MultiheadAttention takes a path that is not exported.
        with torch.inference_mode(False), torch.enable_grad():
            torch.onnx.export(module, (torch.randn(batch or 1, *shape),), str(path), input_names=["x"],
                              opset_version=OPSET, dynamo=False, **axes)
    except Exception as error:  # noqa: BLE001
        return f"torch.onnx.export: {' '.join(str(error).split())[:200]}"
    return ""


class Turn:
    """Holds the lock that `lamina bench model --turns` takes as well."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.file = open(self.path, "a")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self.file.close()


def time_eager(a, module, inputs):
    """batch -> median milliseconds of a call"""
    import torch
    module(inputs[min(inputs)])  # libraries are loaded while others time
    torch.cuda.synchronize()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = {}
    with Turn(a.work / "turns"):
        for batch, x in inputs.items():
            samples = []
            while len(samples) < 8 or len(samples) < 40 and sum(samples) < 1e3 * a.seconds:
                before.record()
                module(x)
                after.record()
                after.synchronize()
                samples.append(before.elapsed_time(after))
            times[batch] = statistics.median(samples[3:])
    return times


def time_lamina(a, model, batch, steps):
    """milliseconds of a run, or what was said instead"""
    done = subprocess.run([a.lamina, "bench", "model", "--model", model, "--batch", str(batch), "--device", a.device,
                           "--precision", a.precision, "--seconds", str(a.seconds), "--turns", a.work / "turns",
                           "--json", steps], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return json.loads(steps.read_text())["ms"]
    return f"exit {done.returncode}: {' '.join(done.stderr.split())[-400:]}"


def run_case(a, network):
    import torch
    import coverage_models
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    result = {"lamina": {}, "eager": {}}
    module, shape = coverage_models.build(network)
    shape = shape[1:]
    coverage_models.calibrate(module.eval(), torch.randn(2, *shape))
    result["parameters"] = sum(p.numel() for p in module.parameters())
    refused = []
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for batch in a.batch:
            steps = a.work / "steps" / f"{network.replace('/', '.').replace(':', '.')}-{batch}.json"
            measured = ""
            for fixed in (None, batch):  # an open batch is what a network may not have been written for
                model = Path(folder) / f"{fixed or 'open'}.onnx"
                if not (said := export(module, shape, model, fixed)):
                    measured = time_lamina(a, model, batch, steps)
                if isinstance(measured, float):
                    result["lamina"][batch] = measured
                    break
                said = said or measured
            else:
                refused.append(f"N = {batch}: {said}")
        for path in Path(folder).iterdir():
            path.unlink()
        dtype = getattr(torch, DTYPES[a.precision])
        module = module.to(a.device, dtype, memory_format=torch.channels_last)
        inputs = {n: torch.randn(n, *shape).to(a.device, dtype).to(memory_format=torch.channels_last) for n in a.batch}
        try:
            result["eager"] = time_eager(a, module, inputs)
        except Exception as error:  # noqa: BLE001
            refused.append(f"PyTorch: {' '.join(str(error).split())[:200]}")
    ratios = {n: result["eager"][n] / ms for n, ms in result["lamina"].items() if n in result["eager"]}
    said = [f"N = {n}: {result['lamina'][n]:.3f} ms, {r:.2f} times as fast" for n, r in ratios.items()]
    status = "refused" if refused else "passed" if min(ratios.values()) > 1 else "wrong"
    return {**result, "status": status, "message": "; ".join(said + refused)}


# --- what is printed ---------------------------------------------------------------------------------------------------


def tables(a, results):
    """Markdown: for each batch how many are faster, and the ten networks with the least lead"""
    heads = ["N", "networks", "faster than eager", "median", "least"]
    rows, worst = [], []
    for batch in map(str, a.batch):
        ratios = sorted((r["eager"][batch] / r["lamina"][batch], case) for case, r in results.items()
                        if batch in r.get("lamina", {}) and batch in r["eager"])
        if not ratios:
            continue
        rows.append([batch, len(ratios), sum(ratio > 1 for ratio, _ in ratios),
                     f"{statistics.median(ratio for ratio, _ in ratios):.2f}×", f"{ratios[0][0]:.2f}×"])
        worst += [[case, batch, f"{1e3 * results[case]['lamina'][batch]:.0f}",
                   f"{1e3 * results[case]['eager'][batch]:.0f}", f"{ratio:.2f}×"] for ratio, case in ratios[:10]]
    refused = [[case, r["message"][:200]] for case, r in results.items() if r["status"] == "refused"]
    parts = [suite.table(heads, rows), suite.table(["the least", "N", "Lamina µs", "eager µs", "ratio"], worst)]
    return "\n\n".join(parts + [suite.table(["not compared", "why"], refused)] * bool(refused))


def main():
    a = parse_arguments()
    a.work, a.lamina = a.work.resolve(), a.lamina.resolve()
    (a.work / "steps").mkdir(parents=True, exist_ok=True)
    import coverage_models
    networks = suite.selected(coverage_models.cases(a.sets, a.work / "timm_files.json"), a.only, a.shard)
    state = suite.State(a.work / f"results-{a.precision}.jsonl", suite.identity_of(a.lamina), a.again)
    if not a.table:
        os.environ["OMP_NUM_THREADS"] = "1"
        begin = time.monotonic()
        suite.run_all(networks, functools.partial(run_case, a), state, a.jobs, a.timeout, a.work / "answers")
        print(f"took {time.monotonic() - begin:.0f} s")
    text = tables(a, {case: state.results[case] for case in networks if case in state.results})
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
