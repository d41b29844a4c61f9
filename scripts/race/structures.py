#!/usr/bin/env python3
"""Makes model files of the networks whose structure tests/golden/structures holds, with weights drawn by a seed.

    scripts/race/structures.py FOLDER                      # all of them, NAME.safetensors each
    scripts/race/structures.py FOLDER resnet50 swin_t

Weights have the mean and the deviation that the structure says, so that values stay in the range of f16. Needs NumPy alone.
"""

import argparse
import json
import os
import re
import struct

import numpy as np

STRUCTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "structures")
STORED = {"f32": "F32", "f64": "F64", "i64": "I64", "i32": "I32", "bool": "BOOL", "u8": "U8"}
DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "bool": np.bool_, "u8": np.uint8}


def names():
    return sorted(file[:-6] for file in os.listdir(STRUCTURES) if file.endswith(".jsonl"))


def tensor_of(text, random):
    """(safetensors' name of the type, values) of "~[shape] mean deviation", or of "type[shape] values"."""
    kind, shape, numbers = re.fullmatch(r"(.*)\[(.*)\] (.*)", text).groups()
    shape, numbers = [int(n) for n in shape.split(",") if n], numbers.split()
    if kind == "~":
        mean, deviation = map(float, numbers)
        values = random.random(shape, dtype=np.float32)
        values *= np.float32(deviation * 12**0.5)
        values += np.float32(mean - deviation * 3**0.5)
        return "F32", values
    values = np.array([int(n) if kind[0] in "iub" else float(n) for n in numbers], dtype=DTYPES[kind])
    return STORED[kind], np.broadcast_to(values[0], shape) if values.size == 1 else values.reshape(shape)


def read(name):
    """The graph as docs/formats.md has it, and the text of each tensor by name; make_golden_structures.py says how it is written."""
    with open(os.path.join(STRUCTURES, name + ".jsonl")) as file:
        first, *lines = map(json.loads, file)
    nodes, tensors = [], {}

    def constant(name, text):
        tensors[name] = text
        nodes.append({"name": name, "op": "Constant", "inputs": []})
        return name

    for name, what, *more in lines:
        if isinstance(what, str):
            constant(name, what)
            continue
        inputs = [constant(f"{name}_{i}", text) if "[" in text else text for i, text in enumerate(what)]
        nodes.append({"name": name, "op": name.rpartition("_")[0], "inputs": inputs, "attrs": more[0]})
        tensors.update({f"{name}.{key}": text for key, text in (more[1] if len(more) > 1 else {}).items()})
    return {"version": 1, **first, "nodes": nodes}, tensors


def write(name, path):
    """The network `name` as a model file."""
    graph, texts = read(name)
    random = np.random.default_rng(1)
    tensors = {key: tensor_of(text, random) for key, text in texts.items()}
    header, end = {"__metadata__": {"lamina.graph": json.dumps(graph)}}, 0
    for key, (kind, values) in tensors.items():
        header[key] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(np.ascontiguousarray(values).tobytes())
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("networks", nargs="*", default=names())
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    for name in options.networks:
        write(name, os.path.join(options.folder, name + ".safetensors"))


if __name__ == "__main__":
    main()
