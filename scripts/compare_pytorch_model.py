#!/usr/bin/env python3
"""Races whole networks in Lamina against PyTorch on the same GPU in the same run, checks that they agree, and prints
the ratios.

    scripts/compare_pytorch_model.py --lamina build/release/bin/lamina
    scripts/compare_pytorch_model.py --arch resnet18 --batch 1,32 --precision fp16 --compile --json out.json

Weights are torchvision's initial ones from a fixed seed, written to a temporary file that `lamina bench model` and
`lamina run` read: no network is needed. PyTorch runs in a CUDA graph, in NCHW and in NHWC, with cudnn.benchmark on, in
16 bits for fp16 and bf16 (input included), and with --compile through torch.compile(mode="max-autotune") too. Lamina's
input and output are f32 in every precision. Times are medians of one call, inputs on the device.

Needs PyTorch and torchvision with CUDA. Never needed to build, run or test Lamina.
"""

import argparse
import copy
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torchvision
    from safetensors.torch import load_file
except ImportError as error:
    sys.exit(f"compare_pytorch_model.py: {error}")

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 4e-2}  # relative L2 error of the logits


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--arch", default="alexnet", choices=["alexnet", "vgg16", "resnet18"])
    parser.add_argument("--batch", type=lambda t: [int(n) for n in t.split(",")], default=[1, 8, 32, 256])
    parser.add_argument("--precision", type=lambda t: t.split(","), default=list(DTYPES))
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure each variant")
    parser.add_argument("--compile", action="store_true", help="torch.compile too; takes minutes")
    parser.add_argument("--skip-pytorch", action="store_true", help="Lamina alone")
    parser.add_argument("--json", help="also write everything measured to this file")
    return parser.parse_args()


def time_graph(call, seconds):
    """Median milliseconds of call() replayed from a CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
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


def measure_pytorch(model, x, a, precision):
    """variant -> milliseconds"""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    times = {}
    for layout, memory_format in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        net = copy.deepcopy(model).cuda().to(dtype=DTYPES[precision], memory_format=memory_format)
        input = x.to(DTYPES[precision]).contiguous(memory_format=memory_format)
        times[f"{layout}, CUDA graph"] = time_graph(lambda: net(input), a.seconds)
        if a.compile:
            torch._dynamo.reset()
            compiled = torch.compile(net, mode="max-autotune-no-cudagraphs")
            try:
                times[f"{layout}, torch.compile, CUDA graph"] = time_graph(lambda: compiled(input), a.seconds)
            except Exception as error:  # its compiler may be missing: that is no reason to stop
                print(f"  torch.compile: {str(error).splitlines()[0]}", file=sys.stderr)
    return times


def run_lamina(a, *arguments):
    done = subprocess.run([a.lamina, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_pytorch_model.py: lamina {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def main():
    a = parse_arguments()
    if not torch.cuda.is_available():
        sys.exit("compare_pytorch_model.py: PyTorch sees no GPU")
    torch.manual_seed(1)
    model = getattr(torchvision.models, a.arch)(weights=None).eval()
    rows = []
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print(f"{'precision':9} {'N':>4}  {'Lamina us':>9}  {'PyTorch us':>10}  {'ratio':>6}  {'rel. error':>10}  PyTorch's best")
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        weights, source, result = Path(folder) / "weights.pth", Path(folder) / "x.pt", Path(folder) / "y.safetensors"
        torch.save(model.state_dict(), weights)
        for batch in a.batch:
            x = torch.randn(batch, 3, 224, 224)
            torch.save(x, source)
            truth = copy.deepcopy(model).double().cuda()(x.double().cuda()).cpu()
            for precision in a.precision:
                network = ["--arch", a.arch, "--weights", weights, "--device", "cuda", "--precision", precision]
                measured = json.loads(run_lamina(a, "bench", "model", *network, "--batch", batch, "--seconds", a.seconds,
                                                 "--json", "-"))
                run_lamina(a, "run", *network, "--input", source, "--output", result)
                (logits,) = load_file(result).values()
                error = ((logits.double() - truth).norm() / truth.norm()).item()
                times = {} if a.skip_pytorch else measure_pytorch(model, x.cuda(), a, precision)
                best = min(times, key=times.get) if times else ""
                theirs = times[best] * 1e3 if times else float("nan")
                ours = measured["ms"] * 1e3
                wrong = "" if error <= TOLERANCE[precision] else "  WRONG"
                print(f"{precision:9} {batch:4}  {ours:9.1f}  {theirs:10.1f}  {theirs / ours:5.2f}x  {error:10.1e}  {best}{wrong}",
                      flush=True)
                rows.append({"precision": precision, "batch": batch, "lamina": measured, "pytorch": times, "error": error})
    if a.json:
        Path(a.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if any(row["error"] > TOLERANCE[row["precision"]] for row in rows):
        sys.exit("compare_pytorch_model.py: results disagree")


if __name__ == "__main__":
    main()
