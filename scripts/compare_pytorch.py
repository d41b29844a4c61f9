#!/usr/bin/env python3
"""Races Lamina's convolution against PyTorch (cuDNN) on the same GPU in the same run, and prints the ratios.

    scripts/compare_pytorch.py --lamina build/release/bin/lamina
    scripts/compare_pytorch.py --lamina build/release/bin/lamina --batch 1,256 --precision fp32 --json out.json

PyTorch gets every chance: NCHW and NHWC, ReLU fused where PyTorch has it, cudnn.benchmark on, and what an expert would
try for three input channels: channels padded to 4, and a space-to-depth rearrangement, its cost counted. Times are
medians. Batches below 32 run inside one CUDA graph of 100 calls over rotating buffers, time divided by calls; larger
ones are timed call by call with device events. Rotating buffers hold more than the L2 cache does. Lamina is timed the
same way by `lamina bench conv2d`. Bias and ReLU are on for both.

Needs PyTorch with CUDA. Never needed to build, run or test Lamina.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit("compare_pytorch.py: PyTorch is not installed")

CALLS = 100
ROTATION_BYTES = 256e6  # more than the L2 cache of any GPU
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def numbers(text):
    return [int(part) for part in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--batch", type=numbers, default=[1, 8, 32, 256])
    parser.add_argument("--precision", type=lambda t: t.split(","), default=list(DTYPES))
    parser.add_argument("--algorithm", default="auto", help="Lamina's algorithm, or all")
    parser.add_argument("--in", dest="channels", type=int, default=3)
    parser.add_argument("--out", dest="filters", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--kernel", type=int, default=11)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--padding", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure each variant")
    parser.add_argument("--json", help="also write everything measured to this file")
    return parser.parse_args()


def time_calls(call, count, batch, seconds):
    """Median milliseconds of call(i), i rotating through `count` sets of buffers."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed(work):
        before.record()
        work()
        after.record()
        after.synchronize()
        return before.elapsed_time(after)

    for i in range(max(3, min(count, 10))):
        call(i % count)
    torch.cuda.synchronize()
    if batch < 32:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(CALLS):
                call(i % count)
        once = lambda: timed(graph.replay) / CALLS
    else:
        turn = iter(range(1 << 60))
        once = lambda: timed(lambda: call(next(turn) % count))
    for _ in range(3):
        once()
    samples, spent = [], 0.0
    while len(samples) < 5 or spent < seconds * 1e3:
        samples.append(once())
        spent += samples[-1] * (CALLS if batch < 32 else 1)
    return statistics.median(samples)


def space_to_depth_weight(weight, stride):
    """[OC, C, K, K] -> [OC, C * stride^2, k, k] that does the same on a rearranged input."""
    kernel = weight.shape[2]
    padded = math.ceil(kernel / stride) * stride
    weight = F.pad(weight, (0, padded - kernel, 0, padded - kernel))
    return F.pixel_unshuffle(weight, stride)


def variants(a, batch, dtype):
    """name -> function(i): everything PyTorch can do about this layer."""
    weight = torch.randn(a.filters, a.channels, a.kernel, a.kernel, device="cuda") / math.sqrt(a.channels * a.kernel**2)
    bias = torch.randn(a.filters, device="cuda", dtype=dtype)
    weight = weight.to(dtype)
    out = (a.size + 2 * a.padding - a.kernel) // a.stride + 1
    bytes_each = batch * (a.channels * a.size**2 + a.filters * out**2) * weight.element_size()
    count = max(1, min(100, math.ceil(ROTATION_BYTES / bytes_each)))
    inputs = [torch.randn(batch, a.channels, a.size, a.size, device="cuda", dtype=dtype) for _ in range(count)]
    stride, padding, ones = (a.stride,) * 2, (a.padding,) * 2, (1, 1)
    last = torch.channels_last
    result = {}

    def add(name, sources, w, pad=padding, step=stride, prepare=lambda x: x):
        result[name] = lambda i: F.conv2d(prepare(sources[i]), w, bias, step, pad)
        result[name + ", fused ReLU"] = lambda i: torch.cudnn_convolution_relu(
            prepare(sources[i]), w, bias, step, pad, ones, 1)

    nhwc = [x.contiguous(memory_format=last) for x in inputs]
    add("NCHW", inputs, weight)
    add("NHWC", nhwc, weight.contiguous(memory_format=last))
    if a.channels == 3:
        wide = [F.pad(x, (0, 0, 0, 0, 0, 1)).contiguous(memory_format=last) for x in inputs]
        add("NHWC, channels padded to 4 beforehand", wide, F.pad(weight, (0, 0, 0, 0, 0, 1)).contiguous(memory_format=last))
    if a.stride > 1:
        blocks = math.ceil(a.kernel / a.stride)
        need = ((out - 1) + blocks) * a.stride  # rows that the rearranged windows cover
        after = need - a.size - a.padding
        s2d = space_to_depth_weight(weight, a.stride).contiguous(memory_format=last)

        def rearrange(x):
            x = F.pad(x, (a.padding, after, a.padding, after))
            return F.pixel_unshuffle(x, a.stride).contiguous(memory_format=last)

        add("space-to-depth, rearrangement counted", inputs, s2d, (0, 0), (1, 1), rearrange)
        ready = [rearrange(x) for x in inputs]
        add("space-to-depth, rearranged beforehand (not counted)", ready, s2d, (0, 0), (1, 1))
        difference = result["space-to-depth, rearrangement counted"](0).float() - result["NCHW"](0).float()
        if difference.abs().max() > 0.1:
            sys.exit("compare_pytorch.py: the space-to-depth form computes something else")
    return result, count


def measure_pytorch(a):
    times = {}
    torch.backends.cudnn.benchmark = True
    for precision in a.precision:
        torch.backends.cudnn.allow_tf32 = precision != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
        for batch in a.batch:
            with torch.inference_mode():
                calls, count = variants(a, batch, DTYPES[precision])
                for name, call in calls.items():
                    try:
                        times[precision, batch, name] = time_calls(call, count, batch, a.seconds)
                    except RuntimeError as error:
                        print(f"  PyTorch {precision} N={batch} {name}: {str(error).splitlines()[0]}", file=sys.stderr)
            del calls
            torch.cuda.empty_cache()
    return times


def measure_lamina(a):
    """Of inputs in the precision's own type, as PyTorch's are."""
    measured = []
    for precision in a.precision:
        command = [a.lamina, "bench", "conv2d", "--device", "cuda", "--relu", "--json", "-"]
        command += ["--batch", ",".join(map(str, a.batch)), "--precision", precision, "--algorithm", a.algorithm]
        command += ["--in", a.channels, "--out", a.filters, "--size", a.size, "--kernel", a.kernel, "--stride", a.stride]
        command += ["--padding", a.padding, "--seconds", a.seconds]
        command += ["--input-format", {"fp16": "f16", "bf16": "bf16"}.get(precision, "f32")]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"compare_pytorch.py: {done.stderr.strip()}")
        measured.append(json.loads(done.stdout))
    return {**measured[0], "results": [result for one in measured for result in one["results"]]}


def main():
    a = parse_arguments()
    if not torch.cuda.is_available():
        sys.exit("compare_pytorch.py: PyTorch sees no GPU")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    lamina = measure_lamina(a)
    pytorch = measure_pytorch(a)

    print(f"\n{'precision':9} {'N':>4}  {'Lamina ms':>9}  {'of bound':>8}  {'best PyTorch ms':>15}  {'ratio':>6}  PyTorch's best")
    for result in lamina["results"]:
        precision, batch = result["precision"], result["batch"]
        if "error" in result:
            print(f"{precision:9} {batch:4}  {result['algorithm']}: {result['error']}")
            continue
        counted = {name: ms for (p, n, name), ms in pytorch.items()
                   if p == precision and n == batch and "not counted" not in name}
        best = min(counted, key=counted.get)
        ratio = counted[best] / result["ms"]
        print(f"{precision:9} {batch:4}  {result['ms']:9.4f}  {result['worst_of_bound']:8.2f}  {counted[best]:15.4f}"
              f"  {ratio:5.2f}x  {best}   [{result['kernel']}]")
    print("\nEvery PyTorch variant, ms:")
    for (precision, batch, name), ms in sorted(pytorch.items(), key=lambda item: (item[0][0], item[0][1], item[1])):
        print(f"  {precision:5} N={batch:<4} {ms:9.4f}  {name}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            rows = [{"precision": p, "batch": n, "variant": v, "ms": ms} for (p, n, v), ms in pytorch.items()]
            json.dump({"lamina": lamina, "pytorch": rows}, file, indent=1)


if __name__ == "__main__":
    main()
