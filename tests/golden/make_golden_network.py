#!/usr/bin/env python3
"""Writes a small network with odd geometry and what PyTorch computes with it, for `lamina verify`.

    python3 tests/golden/make_golden_network.py

Needs torch and safetensors. Run by hand; the files it writes are committed:
    network.safetensors         a model: convolutions of many geometries, ReLU, dropout, flatten
    network-golden.safetensors  the input, and every node's output as PyTorch computes it
    network-wrong.safetensors   the same with one value changed: verify must fail
    network-inputs.safetensors  the input alone: verify must say that nothing was compared
"""

import json
import pathlib

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent

# name -> (constructor arguments, the node it reads)
CONVOLUTIONS = {
    "stem": (dict(in_channels=4, out_channels=6, kernel_size=(5, 3), stride=(3, 1), padding=(2, 0)), "input"),
    "body.0": (dict(in_channels=6, out_channels=12, kernel_size=3, padding=2, dilation=2, groups=3, bias=False), "stem.relu"),
    "body.2": (dict(in_channels=12, out_channels=12, kernel_size=(1, 4), stride=(1, 2), groups=12), "body.1"),
    "head": (dict(in_channels=12, out_channels=5, kernel_size=1, stride=(4, 3)), "drop"),
}


def pair(value):
    return list(value) if isinstance(value, tuple) else [value, value]


def main():
    torch.manual_seed(20)
    values = {"input": torch.randn(2, 4, 17, 13)}
    tensors, nodes = {}, []

    def convolution(name):
        arguments, source = CONVOLUTIONS[name]
        module = torch.nn.Conv2d(**arguments)
        values[name] = module(values[source])
        tensors.update({f"{name}.{key}": value for key, value in module.state_dict().items()})
        attributes = {key: pair(arguments[key]) for key in ("stride", "padding", "dilation") if key in arguments}
        attributes["groups"] = arguments.get("groups", 1)
        nodes.append({"name": name, "op": "conv2d", "inputs": [source], "attrs": attributes})

    def plain(name, op, source, function):
        values[name] = function(values[source])
        nodes.append({"name": name, "op": op, "inputs": [source]})

    with torch.no_grad():
        convolution("stem")
        plain("stem.relu", "relu", "stem", torch.relu)
        convolution("body.0")
        plain("body.1", "relu", "body.0", torch.relu)
        convolution("body.2")
        plain("drop", "dropout", "body.2", lambda x: x)
        convolution("head")
        plain("flat", "flatten", "head", lambda x: torch.flatten(x, 1))

    def write(name, content, metadata=None):
        save_file(content, HERE / name, metadata)
        (HERE / name).chmod(0o644)  # the package writes them readable by the owner alone

    graph = {
        "version": 1,
        "inputs": [{"name": "input", "dtype": "f32", "shape": ["N", 4, 17, 13]}],
        "nodes": nodes,
        "outputs": ["flat", "body.1"],
    }
    contiguous = {name: value.contiguous().clone() for name, value in values.items()}
    write("network.safetensors", tensors, {"lamina.graph": json.dumps(graph)})
    write("network-golden.safetensors", contiguous)
    write("network-inputs.safetensors", {"input": contiguous["input"]})
    contiguous["body.0"][1, 3, 2, 1] += 0.01
    write("network-wrong.safetensors", contiguous)


if __name__ == "__main__":
    main()
