#!/usr/bin/env python3
"""Races Lamina on a CPU against PyTorch, ONNX Runtime, OpenCV and ncnn, where installed, and prints the ratios.

    scripts/compare_cpu_peers.py --lamina build/release/bin/lamina
    scripts/compare_cpu_peers.py --lamina build/release/bin/lamina --threads 1 --batch 1 --networks conv1,conv3

AlexNet whole (torchvision's, ReLUs fused where the engine does that) and its convolutions one by one (conv1 with the 96
filters of the paper), fp32, NCHW in and out. All engines get the same weights and input and must agree to 1e-4 of the
largest output. They take turns, `--rounds` of `--seconds` each, and each shows the 10th percentile of its best round: on a
machine that others use, the fairest figure there is. PyTorch runs eagerly and frozen (prepacked oneDNN weights). ncnn
takes one image at a time. Never needed to build, run or test Lamina.
"""

import argparse
import json
import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import numpy as np
except ImportError:
    sys.exit("compare_cpu_peers.py: numpy is not installed")


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


torch, onnxruntime, cv2, ncnn = (optional(name) for name in ("torch", "onnxruntime", "cv2", "ncnn"))

# A network is its input [C, H, W] and a list of layers: ("conv", in, out, kernel, stride, padding), ("relu",),
# ("pool", kernel, stride), ("flatten",), ("linear", in, out).
ALEXNET = [("conv", 3, 64, 11, 4, 2), ("relu",), ("pool", 3, 2), ("conv", 64, 192, 5, 1, 2), ("relu",), ("pool", 3, 2),
           ("conv", 192, 384, 3, 1, 1), ("relu",), ("conv", 384, 256, 3, 1, 1), ("relu",),
           ("conv", 256, 256, 3, 1, 1), ("relu",), ("pool", 3, 2), ("flatten",), ("linear", 9216, 4096), ("relu",),
           ("linear", 4096, 4096), ("relu",), ("linear", 4096, 1000)]
VGG16 = [layer for block in ([3, 64, 64], [64, 128, 128], [128, 256, 256, 256], [256, 512, 512, 512], [512, 512, 512, 512])
         for layer in [step for c, f in zip(block, block[1:]) for step in (("conv", c, f, 3, 1, 1), ("relu",))] + [("pool", 2, 2)]]
VGG16 += [("flatten",), ("linear", 25088, 4096), ("relu",), ("linear", 4096, 4096), ("relu",), ("linear", 4096, 1000)]
NETWORKS = {
    "conv1": ((3, 224, 224), [("conv", 3, 96, 11, 4, 2)]),
    "conv2": ((64, 27, 27), [("conv", 64, 192, 5, 1, 2)]),
    "conv3": ((192, 13, 13), [("conv", 192, 384, 3, 1, 1)]),
    "conv4": ((384, 13, 13), [("conv", 384, 256, 3, 1, 1)]),
    "conv5": ((256, 13, 13), [("conv", 256, 256, 3, 1, 1)]),
    "alexnet": ((3, 224, 224), ALEXNET),
    "vgg16": ((3, 224, 224), VGG16),
}


class Network:
    """Layers with weights, and the shape and arithmetic of every step."""

    def __init__(self, name, batch, random):
        shape, self.layers = NETWORKS[name]
        self.batch, self.shapes, self.weights, self.gflop = batch, [(batch, *shape)], {}, 0.0
        for i, layer in enumerate(self.layers):
            n, *extents = self.shapes[-1]
            if layer[0] == "conv":
                _, channels, filters, kernel, stride, padding = layer
                size = (extents[1] + 2 * padding - kernel) // stride + 1
                self.add_weights(random, i, (filters, channels, kernel, kernel))
                self.gflop += 2e-9 * n * filters * size * size * channels * kernel * kernel
                extents = [filters, size, size]
            elif layer[0] == "pool":
                size = (extents[1] - layer[1]) // layer[2] + 1
                extents = [extents[0], size, size]
            elif layer[0] == "flatten":
                extents = [int(np.prod(extents))]
            elif layer[0] == "linear":
                self.add_weights(random, i, (layer[2], layer[1]))
                self.gflop += 2e-9 * n * layer[1] * layer[2]
                extents = [layer[2]]
            self.shapes.append((n, *extents))
        self.input = random.standard_normal(self.shapes[0], dtype=np.float32)

    def add_weights(self, random, i, shape):
        scale = np.float32(np.sqrt(2 / np.prod(shape[1:])))  # keeps the activations' size
        self.weights[i] = (random.standard_normal(shape, dtype=np.float32) * scale,
                           random.standard_normal(shape[0], dtype=np.float32))


def write_lamina(network, path):
    """A model file as docs/formats.md describes it."""
    nodes, tensors, last = [], {}, "input"
    for i, layer in enumerate(network.layers):
        op, attributes = layer[0], {}
        if op == "conv":
            op, attributes = "conv2d", {"stride": layer[4], "padding": layer[5]}
        elif op == "pool":
            op, attributes = "max_pool2d", {"kernel": layer[1], "stride": layer[2]}
        if i in network.weights:
            tensors[f"layer{i}.weight"], tensors[f"layer{i}.bias"] = network.weights[i]
        nodes.append({"name": f"layer{i}", "op": op, "inputs": [last], "attrs": attributes})
        last = f"layer{i}"
    graph = {"version": 1, "inputs": [{"name": "input", "dtype": "f32", "shape": ["N", *network.shapes[0][1:]]}],
             "nodes": nodes, "outputs": [last]}
    write_safetensors(path, tensors, {"lamina.graph": json.dumps(graph)})


def write_safetensors(path, tensors, metadata=None):
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64 - 8 % 64)
    text += b" " * (-(len(text) + 8) % 64)  # tensors on cache lines
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())


def read_first_tensor(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    info = next(value for key, value in header.items() if key != "__metadata__")
    begin, end = (8 + size + offset for offset in info["data_offsets"])
    return np.frombuffer(data[begin:end], np.float32).reshape(info["shape"])


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


def onnx_model(network):
    """The bytes of an ONNX model (the onnx package is not needed for so little)."""
    floats, body, last = 1, b"", "x0"

    def tensor(name, array):
        dims = b"".join(field(1, d) for d in array.shape)
        return field(5, dims + field(2, floats) + field(8, name) + field(9, array.tobytes()))

    def value(number, name, shape):
        dims = b"".join(field(1, field(1, d)) for d in shape)
        return field(number, field(1, name) + field(2, field(1, field(1, floats) + field(2, dims))))

    def node(op, inputs, output, **attributes):
        text = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op)
        for name, number in attributes.items():
            if isinstance(number, int):
                text += field(5, field(1, name) + field(3, number) + field(20, 2))
            else:
                text += field(5, field(1, name) + b"".join(field(8, i) for i in number) + field(20, 7))
        return field(1, text)

    tensors = b""
    for i, layer in enumerate(network.layers):
        inputs, output = [last], f"x{i + 1}"
        if i in network.weights:
            inputs += [f"w{i}", f"b{i}"]
            tensors += tensor(f"w{i}", network.weights[i][0]) + tensor(f"b{i}", network.weights[i][1])
        if layer[0] == "conv":
            body += node("Conv", inputs, output, kernel_shape=[layer[3]] * 2, strides=[layer[4]] * 2, pads=[layer[5]] * 4)
        elif layer[0] == "pool":
            body += node("MaxPool", inputs, output, kernel_shape=[layer[1]] * 2, strides=[layer[2]] * 2)
        elif layer[0] == "linear":
            body += node("Gemm", inputs, output, transB=1)
        else:
            body += node({"relu": "Relu", "flatten": "Flatten"}[layer[0]], inputs, output)
        last = output
    graph = body + field(2, "g") + tensors
    graph += value(11, "x0", network.shapes[0]) + value(12, last, network.shapes[-1])
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


class Peer:
    """An engine in this process: `call` computes the output of the network's input."""

    def __init__(self, name, call):
        self.name, self.call = name, call

    def output(self):
        return np.asarray(self.call())

    def p10_ms(self, seconds):
        for _ in range(2):
            self.call()
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 5:
            start = time.perf_counter()
            self.call()
            times.append(time.perf_counter() - start)
        return sorted(times)[len(times) // 10] * 1e3


class Lamina:
    def __init__(self, name, command, network, directory, threads, *options):
        self.name, self.command, self.network = name, command, network
        self.model, self.input = os.path.join(directory, "model"), os.path.join(directory, "input.safetensors")
        self.common = ["--model", self.model, "--device", "cpu", "--threads", str(threads), *options]
        write_safetensors(self.input, {"input": network.input})

    def run(self, *arguments):
        command = [self.command, *arguments, *self.common]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def output(self):
        path = self.model + ".output"
        self.run("run", "--input", self.input, "--output", path)
        return read_first_tensor(path)

    def p10_ms(self, seconds):
        text = self.run("bench", "model", "--batch", str(self.network.batch), "--seconds", str(seconds))
        return float(re.search(r"a whole run.*p10 ([\d.]+)", text)[1])


def pytorch_peers(network):
    nn = torch.nn
    modules = []
    for i, layer in enumerate(network.layers):
        modules.append({"conv": lambda: nn.Conv2d(*layer[1:]), "relu": lambda: nn.ReLU(inplace=True),
                        "pool": lambda: nn.MaxPool2d(*layer[1:]), "flatten": lambda: nn.Flatten(),
                        "linear": lambda: nn.Linear(*layer[1:])}[layer[0]]())
        if i in network.weights:
            with torch.no_grad():
                modules[-1].weight.copy_(torch.from_numpy(network.weights[i][0]))
                modules[-1].bias.copy_(torch.from_numpy(network.weights[i][1]))
    model, x = nn.Sequential(*modules).eval(), torch.from_numpy(network.input)

    def caller(run):
        def call():
            with torch.inference_mode():
                return run(x)
        return call

    version = torch.__version__.split("+")[0]
    yield Peer(f"PyTorch {version}", caller(model))
    warnings.simplefilter("ignore", FutureWarning)  # jit is old, and still what prepacks
    try:
        frozen = torch.jit.optimize_for_inference(torch.jit.trace(model, x))
    except Exception as error:  # an engine's failure is a missing column, not the end
        print(f"PyTorch cannot freeze: {error}", file=sys.stderr)
        return
    yield Peer(f"PyTorch {version}, frozen", caller(frozen))


def onnxruntime_peer(network, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(onnx_model(network), options, providers=["CPUExecutionProvider"])
    return Peer(f"ONNX Runtime {onnxruntime.__version__}", lambda: session.run(None, {"x0": network.input})[0])


def opencv_peer(network, threads):
    cv2.setNumThreads(threads)
    net = cv2.dnn.readNetFromONNX(np.frombuffer(onnx_model(network), np.uint8))

    def call():
        net.setInput(network.input)
        return net.forward()

    return Peer(f"OpenCV {cv2.__version__}", call)


def ncnn_peer(network, threads, directory):
    lines, last = ["Input input 0 1 x0"], "x0"
    path = os.path.join(directory, "ncnn")
    with open(path + ".bin", "wb") as binary:
        for i, layer in enumerate(network.layers):
            output = f"x{i + 1}"
            if i in network.weights:
                weight, bias = network.weights[i]
                binary.write(struct.pack("<I", 0) + weight.tobytes() + bias.tobytes())
            text = {"conv": lambda _, c, f, k, s, p: f"Convolution {{}} 0={f} 1={k} 3={s} 4={p} 5=1 6={f * c * k * k}",
                    "relu": lambda _: "ReLU {}", "pool": lambda _, k, s: f"Pooling {{}} 0=0 1={k} 2={s} 5=1",
                    "flatten": lambda _: "Flatten {}",
                    "linear": lambda _, c, f: f"InnerProduct {{}} 0={f} 1=1 2={f * c}"}[layer[0]](*layer)
            lines.append(text.format(f"layer{i} 1 1 {last} {output}"))
            last = output
    with open(path + ".param", "w") as file:
        file.write("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines]) + "\n")
    net = ncnn.Net()
    net.opt.num_threads = threads
    for name in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
        setattr(net.opt, "use_" + name, False)
    if net.load_param(path + ".param") != 0 or net.load_model(path + ".bin") != 0:
        raise RuntimeError("ncnn does not take the model")

    def call():
        results = []
        for image in network.input:
            extractor = net.create_extractor()
            extractor.input("x0", ncnn.Mat(image))
            results.append(np.array(extractor.extract(last)[1]))
        return np.stack(results)

    return Peer(f"ncnn {ncnn.__version__}", call)


def engines(arguments, name, network, directory):
    """Lamina first."""
    write_lamina(network, os.path.join(directory, "model"))
    def lamina(title, *options):
        return Lamina(title, arguments.lamina, network, directory, arguments.threads, *options)

    yield lamina("Lamina")
    if name == "alexnet":
        for dtype in ("bf16", "f16"):
            yield lamina(f"Lamina, {dtype} linear weights", "--linear-weights", dtype)
    else:
        yield lamina("Lamina, eigen", "--algorithm", "eigen")
    makers = [(torch, lambda: pytorch_peers(network)), (onnxruntime, lambda: [onnxruntime_peer(network, arguments.threads)]),
              (cv2, lambda: [opencv_peer(network, arguments.threads)]),
              (ncnn, lambda: [ncnn_peer(network, arguments.threads, directory)])]
    for module, make in makers:
        if module is None:
            continue
        try:
            yield from make()
        except Exception as error:
            print(f"{module.__name__} cannot run {name}: {error}", file=sys.stderr)


def race(arguments, name, batch, random):
    network = Network(name, batch, random)
    with tempfile.TemporaryDirectory() as directory:
        contestants = list(engines(arguments, name, network, directory))
        truth, rejected = contestants[0].output(), []
        for engine in contestants[1:]:
            output = engine.output().reshape(truth.shape)
            difference = np.abs(output - truth).max() / np.abs(truth).max()
            if not difference <= (2e-2 if "linear weights" in engine.name else 1e-4):
                print(f"{engine.name} disagrees about {name}: {difference:.1e} of the largest output", file=sys.stderr)
                rejected.append(engine)
        contestants = [engine for engine in contestants if engine not in rejected]
        best = {}
        for _ in range(arguments.rounds):
            for engine in contestants:
                ms = engine.p10_ms(arguments.seconds)
                best[engine.name] = min(ms, best.get(engine.name, ms))
    lamina = best["Lamina"]
    for engine, ms in best.items():
        print(f"| {name} | {batch} | {engine} | {ms:.3f} | {ms / lamina:.2f} | {network.gflop / ms * 1e3:.0f} |", flush=True)


def print_ceilings(arguments):
    """Measured before and after the race: the clock of a shared machine wanders."""
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "ceilings")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cpu_ceilings.cpp")
        try:
            subprocess.run(["c++", "-O3", "-march=native", "-std=c++20", "-pthread", source, "-o", program], check=True)
            output = subprocess.run([program, str(arguments.threads)], check=True, capture_output=True, text=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"no ceilings: {error}", file=sys.stderr)
            return
    print("Ceilings: {} GFLOP/s of multiply-adds, reading {} GB/s".format(*output.split()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="which of " + ", ".join(NETWORKS))
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each engine in each round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if torch:
        torch.set_num_threads(arguments.threads)
    print(f"{arguments.threads} thread(s), load average {os.getloadavg()[0]:.1f}, {platform.machine()}")
    print_ceilings(arguments)
    print("\n| network | N | engine | ms | times Lamina's | GFLOP/s |\n|---|---|---|---|---|---|")
    random = np.random.default_rng(1)
    for name in arguments.networks.split(","):
        for batch in arguments.batch.split(","):
            race(arguments, name, int(batch), random)
    print()
    print_ceilings(arguments)


if __name__ == "__main__":
    main()
