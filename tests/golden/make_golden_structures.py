#!/usr/bin/env python3
"""Writes golden/structures/NAME.jsonl: networks of torchvision and timm without their weights, for tests of plans and for races.

    tests/golden/make_golden_structures.py --lamina build/hopper/bin/lamina            # all of NETWORKS
    tests/golden/make_golden_structures.py --lamina build/hopper/bin/lamina resnet50 timm:mobilenetv4_conv_medium

Each network is exported to ONNX with the weights of a seed, as scripts/race/networks.py does, and converted by Lamina. Of its
tensors the file keeps shape, mean and deviation, from which tests/support/plans/structure.h and scripts/race/structures.py draw
values; of small ones and of whole numbers the values. Nodes are named by their op and number. Needs torch, torchvision,
timm, onnx and NumPy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = ("mobilenet_v2 mobilenet_v3_large efficientnet_b0 mnasnet1_0 resnet50 resnext50_32x4d regnet_y_400mf densenet121 googlenet "
            "squeezenet1_1 shufflenet_v2_x1_0 convnext_tiny vit_b_16 swin_t deeplabv3_resnet50 "
            "regnet_y_1_6gf timm:mobilenetv4_conv_medium timm:skresnet18 timm:focalnet_tiny_srf").split()
STORED = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_, "U8": np.uint8}
TYPES = {np.float32: "f32", np.float64: "f64", np.int64: "i64", np.int32: "i32", np.bool_: "bool", np.uint8: "u8"}
BY_TORCH = {"swin_t"}  # by scripts/export_torch.py: as ONNX it has ten times the nodes, most of them about shapes
FEW = 8  # values that are kept as they are


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        metadata = header.pop("__metadata__")
        tensors = {}
        for name, info in header.items():
            begin, end = info["data_offsets"]
            file.seek(start + begin)
            tensors[name] = np.frombuffer(file.read(end - begin), STORED[info["dtype"]]).reshape(info["shape"])
    return metadata, tensors


def described(tensor):
    """"~[shape] mean deviation" of weights, else "type[shape] values"."""
    shape = "[" + ",".join(map(str, tensor.shape)) + "]"
    if tensor.dtype == np.float32 and tensor.size > FEW:
        return f"~{shape} {tensor.mean():.3g} {tensor.std():.3g}"
    values = [str(value.item()) for value in tensor.reshape(-1).astype(np.int64 if tensor.dtype == np.bool_ else tensor.dtype)]
    return f"{TYPES[tensor.dtype.type]}{shape} {' '.join(values[:1] if len(set(values)) == 1 else values)}"


def structure(path):
    """Lines of JSON: {"inputs", "outputs"}, then [name, inputs, attributes] of each node, or [name, text] of a tensor that
    several have. A tensor that one has stands in its inputs as text. A node's name is its op and a number."""
    metadata, tensors = read_safetensors(path)
    graph = json.loads(metadata["lamina.graph"])
    uses, counts, short = {}, {}, {value["name"]: value["name"] for value in graph["inputs"]}
    for node in graph["nodes"]:
        for name in node["inputs"]:
            uses[name] = uses.get(name, 0) + 1
    lines = []
    for node in graph["nodes"]:
        name, op = node["name"], node["op"]
        text = described(tensors.pop(name)) if op == "Constant" else ""
        if op == "Constant" and (uses[name] == 1 or not text.startswith("~")):
            short[name] = text
            continue
        counts[op] = counts.get(op, 0) + 1
        short[name] = f"{op}_{counts[op]}"
        own = {key[len(name) + 1:]: described(tensors.pop(key)) for key in list(tensors)
               if key.rpartition(".")[0] == name and key not in uses}
        lines.append([short[name], text] if text else
                     [short[name], [short.get(i, i) for i in node["inputs"]], node.get("attrs", {})] + ([own] if own else []))
    assert not tensors, tensors.keys()
    first = {"inputs": graph["inputs"], "outputs": [short[name] for name in graph["outputs"]]}
    return [json.dumps(line, separators=(",", ":")) for line in [first] + lines]


def as_if_trained(module):
    """Batch norms get the statistics of a random image, without which timm's initial weights overflow f16."""
    import torch
    norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = 1
        norm.train()
    with torch.no_grad():
        module(torch.randn(4, 3, 224, 224))
    return module.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", required=True, help="the lamina command, built with ONNX")
    parser.add_argument("--onnx", help="a folder with NAME.onnx, exported before")
    parser.add_argument("--out", default=os.path.join(HERE, "structures"))
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    sys.path[:0] = [os.path.join(HERE, "..", "..", "scripts"), os.path.join(HERE, "..", "..", "scripts", "race")]
    import export_torch
    import networks
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks:
            name = network.split(":")[-1]
            model = os.path.join(folder, name + ".safetensors")
            if network in BY_TORCH:
                export_torch.export(networks.build(network), model, [(3, 224, 224)])
            else:
                onnx = os.path.join(options.onnx or folder, name + ".onnx")
                if network.startswith("timm:"):
                    onnx = os.path.join(folder, name + ".onnx")
                    networks.export(network, onnx, as_if_trained(networks.build(network)))
                elif not os.path.exists(onnx):
                    networks.export(network, onnx)
                subprocess.run([options.lamina, "convert", onnx, model], check=True, stdout=subprocess.DEVNULL)
            path = os.path.join(options.out, name + ".jsonl")
            with open(path, "w") as file:
                file.writelines(line + "\n" for line in structure(model))
            os.remove(model)
            print(f"{path}: {os.path.getsize(path):,} bytes")


if __name__ == "__main__":
    main()
