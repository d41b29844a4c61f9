#!/usr/bin/env python3
"""Measures how far Lamina and PyTorch, both in fp32, are from float64 on whole networks: docs/inside/precision.md's table.

    python3 scripts/measure_error.py build/release/bin/lamina torchvision.models:alexnet torchvision.models:resnet18

Needs torch, torchvision and NumPy. Weights are random and seeded, batch norms are given statistics as if trained, the
two images are random. For every node: the root mean square of the error over that of the values ("error"), and the
least --atol with which `lamina verify --rtol 1e-4` would pass ("atol"); printed is the worst node of each.
"""

import json
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))
import export_torch  # noqa: E402

RTOL = 1e-4


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data, "<f4", math.prod(entry["shape"]), 8 + length + entry["data_offsets"][0])
            .reshape(entry["shape"]) for name, entry in header.items()}


def as_if_trained(module):
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2)
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias, -0.5, 0.5)
    return module.eval()


def measure(lamina, name):
    torch.manual_seed(0)
    module = as_if_trained(export_torch.load_module(name))
    single = export_torch.Exporter(module)
    graph = single.export([(3, 224, 224)])
    graph["outputs"] = [node["name"] for node in graph["nodes"] if node["name"] in single.values]  # floats, no constants
    with tempfile.TemporaryDirectory() as folder:
        export_torch.write_safetensors(f"{folder}/model", single.tensors, {"lamina.graph": json.dumps(graph)})
        export_torch.write_safetensors(f"{folder}/input", {"input": single.values["input"]}, {})
        subprocess.run([lamina, "run", "--model", f"{folder}/model", "--input", f"{folder}/input", "--output",
                        f"{folder}/output", "--device", "cpu"], check=True, stdout=subprocess.DEVNULL)
        ours = read_safetensors(f"{folder}/output")
    double = export_torch.Exporter(module.double())
    double.export([(3, 224, 224)], given=[single.values["input"].double()])

    rows = []
    for node in graph["outputs"]:
        truth, torchs = double.values[node].numpy(), single.values[node].numpy()
        rms = math.sqrt((truth ** 2).mean())

        def error(a):
            return math.sqrt(((a - truth) ** 2).mean()) / rms

        def atol(a, b):
            return (np.abs(a - b) - RTOL * np.abs(b)).max() / rms

        rows.append((error(torchs), error(ours[node]), atol(torchs, truth), atol(ours[node], truth),
                     atol(ours[node], torchs)))
    return [max(column) for column in zip(*rows)], len(rows)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print("| network | nodes | error, PyTorch | error, Lamina | atol, PyTorch | atol, Lamina | atol, Lamina against PyTorch |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[2:]:
        worst, nodes = measure(sys.argv[1], name)
        print(f"| `{name.rpartition(':')[2]}` | {nodes} | " + " | ".join(f"{value:.1e}" for value in worst) + " |", flush=True)


if __name__ == "__main__":
    main()
