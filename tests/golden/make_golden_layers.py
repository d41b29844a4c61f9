#!/usr/bin/env python3
"""Writes small networks of every layer and what PyTorch computes with them, for tests/graph/golden_layers_test.cpp and
`lamina verify`.

    python3 tests/golden/make_golden_layers.py

Needs torch, torchvision, pillow and safetensors. Run by hand; the files it writes are committed:
    layers.safetensors        a model: one node for every combination of attributes, all reading the inputs
    layers-golden.safetensors its inputs, and every node's output as PyTorch computes it
    tiny-alexnet*.safetensors AlexNet's shape with a few channels: local response norm, groups, ceil-mode pooling
    tiny-resnet*.safetensors  residual blocks with batch norm and downsampling, a concatenation, a sigmoid
    tiny-classifier.safetensors  a model of photographs with random weights and five labels, for `lamina classify`
    tiny-classifier.csv       what it makes of docs/images/*.png, preprocessed by torchvision
    network-keys.txt          torchvision's parameters by network: name, key, shape
"""

import itertools
import json
import pathlib

import PIL.Image
import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent


class Recorder:
    """A model file in the making: nodes, tensors, and the values that PyTorch gives them."""

    def __init__(self):
        self.inputs, self.nodes, self.tensors, self.values = [], [], {}, {}

    def input(self, name, value):
        self.inputs.append({"name": name, "dtype": "f32", "shape": ["N", *value.shape[1:]]})
        self.values[name] = value
        return name

    def add(self, name, op, sources, value, attrs=None, parameters=None):
        sources = [sources] if isinstance(sources, str) else sources
        node = {"name": name, "op": op, "inputs": sources}
        if attrs:
            node["attrs"] = attrs
        self.nodes.append(node)
        for key, tensor in (parameters or {}).items():
            if key != "num_batches_tracked":
                self.tensors[f"{name}.{key}"] = tensor.detach().contiguous().clone()
        self.values[name] = value.detach().contiguous().clone()
        return name

    def apply(self, name, op, source, function, attrs=None):
        return self.add(name, op, source, function(self.values[source]), attrs)

    def module(self, name, op, source, module, attrs=None):
        module.eval()
        return self.add(name, op, source, module(self.values[source]), attrs, module.state_dict())

    def save(self, stem, outputs):
        graph = {"version": 1, "inputs": self.inputs, "nodes": self.nodes, "outputs": outputs}
        write(f"{stem}.safetensors", self.tensors, {"lamina.graph": json.dumps(graph)})
        write(f"{stem}-golden.safetensors", self.values)


def write(name, content, metadata=None):
    save_file(content, HERE / name, metadata)
    (HERE / name).chmod(0o644)  # the package writes them readable by the owner alone


def tried(function, x):
    """The result, or None where PyTorch refuses the combination."""
    try:
        y = function(x)
    except RuntimeError:
        return None
    return y if y.numel() else None


def layers():
    r = Recorder()
    r.input("square", torch.randn(2, 3, 7, 7))
    r.input("wide", torch.randn(2, 1, 4, 11))
    r.input("small", torch.randn(2, 1, 3, 3))
    r.input("rows", torch.randn(2, 13))
    nan = torch.randn(2, 1, 7, 6)
    nan[0, 0, 2, 3] = float("nan")
    nan[1, 0, 6, 0] = float("inf")
    r.input("nan", nan)
    count = itertools.count()

    windows = [(2, None, 0), (3, 2, 0), (3, 2, 1), (3, 1, 1), ((3, 2), (2, 1), (1, 1)), (4, 3, 2), (2, 5, 1), ((1, 5), (1, 4), (0, 2))]
    for source, (kernel, stride, padding), ceil_mode in itertools.product(("square", "wide", "small", "nan"), windows, (False, True)):
        attrs = {"kernel": kernel, "padding": padding, "ceil_mode": ceil_mode}
        if stride is not None:
            attrs["stride"] = stride
        x = r.values[source]
        for dilation in (1, 2):
            y = tried(lambda v: F.max_pool2d(v, kernel, stride, padding, dilation, ceil_mode), x)
            if y is not None:
                r.add(f"max.{next(count)}", "max_pool2d", source, y, attrs | {"dilation": dilation})
        if source == "nan":
            continue
        for include in (False, True):
            y = tried(lambda v: F.avg_pool2d(v, kernel, stride, padding, ceil_mode, include), x)
            if y is not None:
                r.add(f"avg.{next(count)}", "avg_pool2d", source, y, attrs | {"count_include_pad": include})
    r.apply("max.defaults", "max_pool2d", "square", lambda v: F.max_pool2d(v, 3), {"kernel": 3})
    r.apply("avg.defaults", "avg_pool2d", "square", lambda v: F.avg_pool2d(v, 3), {"kernel": [3, 3]})
    for source, output in itertools.product(("square", "wide", "small"), (1, (2, 5), (9, 3))):
        r.apply(f"adaptive.{next(count)}", "adaptive_avg_pool2d", source, lambda v: F.adaptive_avg_pool2d(v, output), {"output": output})

    for source, size, alpha, beta, k in itertools.product(("square", "wide"), (1, 2, 5), (1e-4, 2.0), (0.75, 0.5), (1,)):
        attrs = {"size": size, "alpha": alpha, "beta": beta, "k": k}
        r.apply(f"lrn.{next(count)}", "local_response_norm", source, lambda v: F.local_response_norm(v, **attrs), attrs)
    for affine, eps in itertools.product((False, True), (1e-5, 0.1)):
        norm = torch.nn.BatchNorm2d(3, eps=eps, affine=affine)
        randomize(norm)
        r.module(f"norm.{next(count)}", "batch_norm2d", "square", norm, {"eps": eps} if eps != 1e-5 else None)
    for out, bias in itertools.product((1, 5, 17), (False, True)):
        r.module(f"linear.{next(count)}", "linear", "rows", torch.nn.Linear(13, out, bias=bias))
    r.module("linear.deep", "linear", "square", torch.nn.Linear(7, 4))
    for dim in (0, 1, 2, -1):
        r.apply(f"softmax.{next(count)}", "softmax", "square", lambda v: torch.softmax(v, dim), {"dim": dim})
        joined = torch.cat([r.values["square"]] * 2 if dim == 0 else [r.values["square"], r.values["square"]], dim)
        if dim != 0:  # a batch of its own is not Lamina's to change
            r.add(f"concat.{next(count)}", "concat", ["square", "square"], joined, {"dim": dim})
    r.apply("sigmoid", "sigmoid", "square", torch.sigmoid)
    r.add("add", "add", ["square", "sigmoid"], r.values["square"] + r.values["sigmoid"])
    r.apply("relu", "relu", "nan", torch.relu)
    r.apply("flatten", "flatten", "wide", lambda v: torch.flatten(v, 1))
    r.save("layers", [node["name"] for node in r.nodes])


def randomize(norm):
    for name, tensor in norm.state_dict().items():
        if name in ("running_var", "weight"):
            tensor.uniform_(0.5, 2)
        elif name != "num_batches_tracked":
            tensor.normal_()


def convolution(r, name, source, *arguments, **keywords):
    module = torch.nn.Conv2d(*arguments, **keywords)
    torch.nn.init.normal_(module.weight, std=0.3)
    attrs = {key: keywords[key] for key in ("stride", "padding", "groups") if key in keywords}
    return r.module(name, "conv2d", source, module, attrs)


def relu(r, name, source):
    return r.apply(name, "relu", source, torch.relu)


def tiny_alexnet():
    r = Recorder()
    x = r.input("data", torch.randn(2, 3, 43, 39))
    x = relu(r, "relu1", convolution(r, "conv1", x, 3, 8, 11, stride=4, padding=2))
    lrn = {"size": 5, "alpha": 0.1, "beta": 0.75, "k": 2}
    pool = {"kernel": 3, "stride": 2, "ceil_mode": True}
    x = r.apply("norm1", "local_response_norm", x, lambda v: F.local_response_norm(v, **lrn), lrn)
    x = r.apply("pool1", "max_pool2d", x, lambda v: F.max_pool2d(v, 3, 2, ceil_mode=True), pool)
    x = relu(r, "relu2", convolution(r, "conv2", x, 8, 12, 5, padding=2, groups=2))
    x = r.apply("pool2", "max_pool2d", x, lambda v: F.max_pool2d(v, 3, 2, ceil_mode=True), pool)
    x = r.apply("norm2", "local_response_norm", x, lambda v: F.local_response_norm(v, **lrn), lrn)
    x = relu(r, "relu3", convolution(r, "conv3", x, 12, 10, 3, padding=1))
    x = r.apply("avgpool", "adaptive_avg_pool2d", x, lambda v: F.adaptive_avg_pool2d(v, 2), {"output": 2})
    x = r.apply("flatten", "flatten", x, lambda v: torch.flatten(v, 1))
    x = r.apply("drop", "dropout", x, lambda v: v)
    x = relu(r, "relu4", r.module("fc4", "linear", x, torch.nn.Linear(40, 20)))
    x = r.module("fc5", "linear", x, torch.nn.Linear(20, 7))
    x = r.apply("prob", "softmax", x, lambda v: torch.softmax(v, 1), {"dim": 1})
    r.save("tiny-alexnet", ["prob"])


def tiny_resnet():
    r = Recorder()

    def norm(name, source):
        module = torch.nn.BatchNorm2d(r.values[source].shape[1])
        randomize(module)
        return r.module(name, "batch_norm2d", source, module)

    def add(name, a, b):
        return r.add(name, "add", [a, b], r.values[a] + r.values[b])

    def block(name, x, channels, out, stride):
        y = relu(r, f"{name}.relu", norm(f"{name}.bn1", convolution(r, f"{name}.conv1", x, channels, out, 3, stride=stride, padding=1, bias=False)))
        y = norm(f"{name}.bn2", convolution(r, f"{name}.conv2", y, out, out, 3, padding=1))
        if channels != out:
            x = norm(f"{name}.downsample.1", convolution(r, f"{name}.downsample.0", x, channels, out, 1, stride=stride, bias=False))
        return relu(r, f"{name}.relu_1", add(f"{name}.add", y, x))

    x = r.input("input", torch.randn(2, 3, 21, 18))
    x = relu(r, "relu", norm("bn1", convolution(r, "conv1", x, 3, 5, 7, stride=2, padding=3, bias=False)))
    x = r.apply("maxpool", "max_pool2d", x, lambda v: F.max_pool2d(v, 3, 2, 1), {"kernel": 3, "stride": 2, "padding": 1})
    x = block("layer1.0", x, 5, 5, 1)
    x = block("layer2.0", x, 5, 7, 2)
    gate = r.apply("gate", "sigmoid", norm("gate.bn", x), torch.sigmoid)
    joined = r.add("joined", "concat", [x, gate, x], torch.cat([r.values[x], r.values[gate], r.values[x]], 1), {"dim": 1})
    x = r.apply("avgpool", "adaptive_avg_pool2d", joined, lambda v: F.adaptive_avg_pool2d(v, 1), {"output": 1})
    x = r.apply("flatten", "flatten", x, lambda v: torch.flatten(v, 1))
    r.module("fc", "linear", x, torch.nn.Linear(21, 4))
    r.save("tiny-resnet", ["fc", "gate"])


def tiny_classifier():
    mean, std, labels = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225], ["cat", "cup", "rocket, \"big\"", "person", "nothing"]
    transforms = torchvision.transforms
    prepare = transforms.Compose([transforms.Resize(40), transforms.CenterCrop(32), transforms.ToTensor(), transforms.Normalize(mean, std)])
    photos = sorted((HERE.parent.parent / "docs/images").glob("*.png"))
    r = Recorder()
    x = r.input("input", torch.stack([prepare(PIL.Image.open(photo).convert("RGB")) for photo in photos]))
    x = relu(r, "features.1", convolution(r, "features.0", x, 3, 6, 5, stride=2))
    x = r.apply("features.2", "max_pool2d", x, lambda v: F.max_pool2d(v, 3, 2), {"kernel": 3, "stride": 2})
    x = r.apply("flatten", "flatten", x, lambda v: torch.flatten(v, 1))
    x = r.module("classifier", "linear", x, torch.nn.Linear(6 * 6 * 6, 5))
    graph = {"version": 1, "inputs": r.inputs, "nodes": r.nodes, "outputs": [x]}
    preprocess = {"resize": 40, "crop": 32, "mean": mean, "std": std}
    write("tiny-classifier.safetensors", r.tensors,
          {"lamina.graph": json.dumps(graph), "lamina.preprocess": json.dumps(preprocess), "lamina.labels": "\n".join(labels)})
    lines = ["photo,rank,class,probability"]
    for photo, probabilities in zip(photos, torch.softmax(r.values[x], 1)):
        for rank, index in enumerate(probabilities.argsort(descending=True)[:3].tolist()):
            lines.append(f"{photo.name},{rank + 1},{index},{probabilities[index]:.6f}")
    (HERE / "tiny-classifier.csv").write_text("\n".join(lines) + "\n")


def network_keys():
    lines = []
    for name in ("alexnet", "resnet18", "vgg16"):
        with torch.device("meta"):
            state = getattr(torchvision.models, name)().state_dict()
        lines += [f"{name} {key} {list(value.shape)}" for key, value in state.items() if not key.endswith("num_batches_tracked")]
    (HERE / "network-keys.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    torch.manual_seed(5)
    with torch.no_grad():
        layers()
        tiny_alexnet()
        tiny_resnet()
        tiny_classifier()
    network_keys()
