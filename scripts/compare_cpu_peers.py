#!/usr/bin/env python3
"""Races Lamina's CPU convolution against PyTorch (oneDNN) and ONNX Runtime, where installed, and prints the ratios.

    scripts/compare_cpu_peers.py --lamina build/release/bin/lamina
    scripts/compare_cpu_peers.py --lamina build/release/bin/lamina --threads 2 --batch 1,8 --layers conv1,conv3

AlexNet's convolutions with bias, fp32, NCHW in and out. The engines take turns, several rounds of `--seconds` each, and
each shows the 10th percentile of its best round: on a machine that others use, the fairest figure there is. PyTorch and
ONNX Runtime compute the same tensors and must agree; Lamina checks its own result against double precision, and must
keep the fp32 contract. Never needed to build, run or test Lamina.
"""

import argparse
import json
import subprocess
import sys
import time

try:
    import numpy as np
except ImportError:
    sys.exit("compare_cpu_peers.py: numpy is not installed")
try:
    import torch
except ImportError:
    torch = None
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

# name: in, out, size, kernel, stride, padding
LAYERS = {
    "conv1": (3, 96, 224, 11, 4, 2),
    "conv2": (64, 192, 27, 5, 1, 2),
    "conv3": (192, 384, 13, 3, 1, 1),
    "conv4": (384, 256, 13, 3, 1, 1),
    "conv5": (256, 256, 13, 3, 1, 1),
}


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """One protobuf field: an int, or bytes or text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_convolution(x_shape, w, b, y_shape, stride, padding):
    """The bytes of an ONNX model of one Conv node (the onnx package is not needed for so little)."""
    floats = 1

    def tensor(name, array):
        dims = b"".join(field(1, d) for d in array.shape)
        return field(5, dims + field(2, floats) + field(8, name) + field(9, array.tobytes()))

    def value(number, name, shape):
        dims = b"".join(field(1, field(1, d)) for d in shape)
        return field(number, field(1, name) + field(2, field(1, field(1, floats) + field(2, dims))))

    def attribute(name, ints):
        return field(5, field(1, name) + b"".join(field(8, i) for i in ints) + field(20, 7))

    node = b"".join(field(1, name) for name in ("x", "w", "b")) + field(2, "y") + field(4, "Conv")
    node += attribute("strides", [stride] * 2) + attribute("pads", [padding] * 4)
    graph = field(1, node) + field(2, "g") + tensor("w", w) + tensor("b", b)
    graph += value(11, "x", x_shape) + value(12, "y", y_shape)
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def p10_ms(call, seconds):
    for _ in range(3):
        call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 10] * 1e3


def pytorch_call(x, w, b, stride, padding):
    # The weight in oneDNN's own layout, as an optimised PyTorch program has it.
    conv = torch.nn.Conv2d(w.shape[1], w.shape[0], w.shape[2], stride, padding)
    with torch.no_grad():
        conv.weight.copy_(torch.from_numpy(w))
        conv.bias.copy_(torch.from_numpy(b))
    data = torch.from_numpy(x)

    def call():
        with torch.inference_mode():
            return conv(data)

    return call


def onnxruntime_call(x, w, b, y_shape, stride, padding, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model = onnx_convolution(x.shape, w, b, y_shape, stride, padding)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def lamina_ms(arguments, layer, batch, algorithm):
    channels, filters, size, kernel, stride, padding = layer
    command = [arguments.lamina, "bench", "conv2d", "--device", "cpu", "--threads", arguments.threads, "--batch", batch,
               "--in", channels, "--out", filters, "--size", size, "--kernel", kernel, "--stride", stride,
               "--padding", padding, "--algorithm", algorithm, "--seconds", arguments.seconds, "--json", "-"]
    output = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
    result = next(r for r in json.loads(output)["results"] if r["algorithm"] == algorithm)
    if result["worst_of_bound"] >= 1:
        sys.exit(f"lamina {algorithm} breaks the precision contract: {result}")
    return result["ms_p10"]


def race(arguments, name, batch, random):
    layer = LAYERS[name]
    channels, filters, size, kernel, stride, padding = layer
    out = (size + 2 * padding - kernel) // stride + 1
    x = random.standard_normal((batch, channels, size, size), dtype=np.float32)
    w = random.standard_normal((filters, channels, kernel, kernel), dtype=np.float32) / 16
    b = random.standard_normal(filters, dtype=np.float32)
    peers = {}
    if torch:
        peers["PyTorch"] = pytorch_call(x, w, b, stride, padding)
    if onnxruntime:
        peers["ONNX Runtime"] = onnxruntime_call(x, w, b, (batch, filters, out, out), stride, padding, arguments.threads)
    results = [np.asarray(call()) for call in peers.values()]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-3)

    best = {}
    for _ in range(arguments.rounds):
        for algorithm in ("blocked", "eigen"):
            ms = lamina_ms(arguments, layer, batch, algorithm)
            best[algorithm] = min(ms, best.get(algorithm, ms))
        for peer, call in peers.items():
            ms = p10_ms(call, arguments.seconds)
            best[peer] = min(ms, best.get(peer, ms))
    gflop = 2e-9 * batch * filters * out * out * channels * kernel * kernel
    cells = [f"{ms:.3f} ({ms / best['blocked']:.2f})" for ms in best.values()]
    print("| " + " | ".join([name, str(batch), *cells, f"{gflop / best['blocked'] * 1e3:.0f}"]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--layers", default=",".join(LAYERS), help="which of " + ", ".join(LAYERS))
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each engine in each round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    engines = ["blocked", "eigen"]
    if torch:
        torch.set_num_threads(arguments.threads)
        engines.append(f"PyTorch {torch.__version__}")
    if onnxruntime:
        engines.append(f"ONNX Runtime {onnxruntime.__version__}")
    print(f"{arguments.threads} thread(s); ms (times Lamina's blocked)\n")
    print("| layer | N | " + " | ".join(engines) + " | blocked, GFLOP/s |")
    print("|---" * (len(engines) + 3) + "|")
    random = np.random.default_rng(1)
    for name in arguments.layers.split(","):
        for batch in arguments.batch.split(","):
            race(arguments, name, int(batch), random)


if __name__ == "__main__":
    main()
