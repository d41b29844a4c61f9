#!/usr/bin/env python3
"""Writes what the fuzzers start from: corpus/TARGET/*, small and made by this project alone, and dictionaries.

    tests/fuzz/make_seeds.py [FOLDER]     # by default beside this file

What the fuzzers found since is added by `scripts/fuzz.sh --keep`, and is not written here.
"""

import json
import re
import struct
import sys
import zipfile
from pathlib import Path

from http_seeds import requests

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
GOLDEN = SOURCE / "tests/golden"
MOST_BYTES = 4000


def safetensors(header, data=b""):
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


# lamina.graph, over the parameters that networks.cpp has

def node(name, op, inputs, **attributes):
    result = {"name": name, "op": op, "inputs": inputs if isinstance(inputs, list) else [inputs]}
    if attributes:
        result["attrs"] = attributes
    return result


def graph(nodes, shape=("N", 3, 9, 9), dtype=None, outputs=None):
    entry = {"name": "x", "shape": list(shape)}
    if dtype:
        entry["dtype"] = dtype
    return json.dumps({"version": 1, "inputs": [entry], "nodes": nodes,
                       "outputs": outputs or [nodes[-1]["name"]]}, separators=(",", ":"))


def op_names():
    names = set()
    for path in sorted((SOURCE / "framework/ops/rows").glob("*.cpp")):
        table = re.search(r"constexpr OpRow \w+\[\]", path.read_text())
        if table:
            names.update(re.findall(r'\{"([A-Z][A-Za-z]+)", ', table.string[table.start():]))
    return sorted(names)


def attribute_names():
    names = set()
    for path in sorted((SOURCE / "framework/ops/rows").glob("*.cpp")):
        names.update(re.findall(r'"([a-z_]{3,})"', path.read_text()))
    return sorted(names)


LAYERS = ["adaptive_avg_pool2d", "add", "avg_pool2d", "batch_norm2d", "concat", "conv2d", "dropout", "flatten", "linear",
          "local_response_norm", "max_pool2d", "relu", "sigmoid", "softmax"]
LAYER_ATTRIBUTES = ["stride", "padding", "dilation", "groups", "kernel", "ceil_mode", "count_include_pad", "output", "size",
                    "alpha", "beta", "k", "eps", "dim"]


def graphs():
    image = ("N", 3, 9, 9)
    yield "conv", graph([node("c", "conv2d", "x", padding=1), node("r", "relu", "c"), node("p", "max_pool2d", "r", kernel=2)])
    yield "norm", graph([node("c", "conv2d", "x"), node("b", "batch_norm2d", "c", eps=1e-5), node("r", "relu", "b"),
                         node("e", "conv2d", "r")])
    yield "strided", graph([node("c", "conv2d", "x", stride=[2, 1], padding=[1, 2], dilation=2),
                            node("d", "conv2d", "c", groups=8, padding=1)], ("N", 3, 13, 11))
    yield "branch", graph([node("c", "conv2d", "x", padding=1), node("c2", "conv2d", "x", padding=1), node("a", "add", ["c", "c2"]),
                           node("r", "relu", "a"), node("q", "concat", ["r", "c"], dim=1), node("h", "conv2d", "q", padding=1),
                           node("g", "avg_pool2d", "h", kernel=3, stride=2, ceil_mode=True, count_include_pad=False)])
    yield "head", graph([node("e", "conv2d", "x"), node("p", "adaptive_avg_pool2d", "e", output=[4, 2]), node("f", "flatten", "p"),
                         node("l", "linear", "f"), node("r", "relu", "l"), node("m", "linear", "r"), node("s", "softmax", "m")], ("N", 8, 8, 8))
    yield "lrn", graph([node("n", "batch_norm2d", "x"), node("o", "local_response_norm", "n", size=3, alpha=1e-4, beta=0.75, k=1.0),
                        node("s", "sigmoid", "o"), node("d0", "dropout", "s")])
    yield "single", graph([node("g", "conv2d", "x", padding=2, stride=3)], ("N", 1, 7, 5))
    yield "grouped", graph([node("f", "conv2d", "x", groups=2, padding=2)], ("N", 4, 6, 6))
    yield "two", json.dumps({"version": 1, "inputs": [{"name": "x", "shape": ["N", 3, 4, 4]}, {"name": "y", "dtype": "f32", "shape": ["N", 3, "?", 4]}],
                             "nodes": [node("a", "Add", ["x", "y"]), node("b2", "Mul", ["a", "x"])], "outputs": ["b2", "a"]})
    for name in op_names():
        for count in (1, 2, 3):
            operands = ["x", "k.weight", "w"][:count] if count > 1 else ["x"]
            nodes = [node("k.weight", "Constant", []), node("w", "Constant", [])][:count - 1]
            yield f"{name}-{count}", graph(nodes + [node("y", name, operands)], (2, 3, 4, 5))
    yield "Conv", graph([node("c.weight", "Constant", []), node("y", "Conv", ["x", "c.weight"], kernel_shape=[3, 3], pads=[1, 0, 1, 2],
                                                                strides=[2, 1], auto_pad="NOTSET"), node("z", "Clip", "y")], (1, 3, 8, 8))
    yield "Transpose", graph([node("t", "Transpose", "x", perm=[0, 2, 3, 1]), node("r", "ReduceMean", "t", keepdims=0), node("y", "Softmax", "t", axis=-1)],
                             (1, 3, 4, 5), outputs=["y", "r"])
    yield "Cast", graph([node("i", "Cast", "x", to=7), node("s", "Shape", "i"), node("y", "Gather", ["x", "i"], axis=0), node("o", "OneHot", ["i", "i", "x"])],
                        (2, 3), "u8")
    yield "MaxPool", graph([node("y", "MaxPool", "x", kernel_shape=[2, 3], strides=[1, 2], pads=[0, 1, 1, 0], dilations=[2, 1], ceil_mode=1),
                            node("z", "AveragePool", "y", kernel_shape=[2, 2], count_include_pad=1)], (1, 3, 9, 9))


# .onnx, by hand: no library is needed

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    return field(1, name) + field(8, b"".join(varint(v) for v in value)) + field(20, 7)


def onnx_node(op, inputs, outputs, **attributes):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + field(4, op) +
            b"".join(field(5, attribute(k, v)) for k, v in attributes.items()))


def value_info(name, shape, dtype=1):
    extents = b"".join(field(1, field(2, e) if isinstance(e, str) else field(1, e)) for e in shape)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, extents)))


def initializer(name, shape, values):
    if values and isinstance(values[0], float):
        data, dtype = struct.pack(f"<{len(values)}f", *values), 1
    else:
        data, dtype = struct.pack(f"<{len(values)}q", *values), 7
    return field(1, b"".join(varint(e) for e in shape)) + field(2, dtype) + field(8, name) + field(9, data)


def onnx(nodes, constants=(), shape=(1, 3, 6, 6), dtype=1, opset=18, outputs=("y",)):
    body = field(2, "g") + b"".join(field(1, n) for n in nodes) + b"".join(field(5, c) for c in constants)
    body += field(11, value_info("x", shape, dtype)) + b"".join(field(12, field(1, o)) for o in outputs)
    return field(1, 10) + field(7, body) + field(8, field(1, "") + field(2, opset))


def onnx_files():
    small = [0.5, -1.0, 2.0]
    weight = initializer("w", [2, 3, 3, 3], [float(i % 5 - 2) for i in range(54)])
    yield "conv", onnx([onnx_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), onnx_node("Relu", ["c"], ["r"]),
                        onnx_node("GlobalAveragePool", ["r"], ["y"])], [weight], ("N", 3, 6, 6))
    yield "reshape", onnx([onnx_node("Reshape", ["x", "s"], ["r"]), onnx_node("MatMul", ["r", "r2"], ["y"])],
                          [initializer("s", [2], [1, -1]), initializer("r2", [4, 2], [float(i) for i in range(8)])], (1, 2, 2))
    yield "slice", onnx([onnx_node("Slice", ["x", "b", "e"], ["y"])], [initializer("b", [2], [0, 1]), initializer("e", [2], [1, 9])])
    yield "resize", onnx([onnx_node("Resize", ["x", "", "f"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel")],
                         [initializer("f", [4], [1.0, 1.0, 2.0, 1.5])])
    yield "split", onnx([onnx_node("Split", ["x"], ["y", "z"], axis=2, num_outputs=2)], outputs=("y", "z"))
    yield "old", onnx([onnx_node("Clip", ["x"], ["c"], min=0.0, max=6.0), onnx_node("Upsample", ["c", "f"], ["y"], mode="nearest")],
                      [initializer("f", [4], [1.0, 1.0, 2.0, 2.0])], opset=9)
    body = field(2, "b") + field(1, onnx_node("Neg", ["x"], ["t"])) + field(12, field(1, "t"))
    branch = field(1, "then_branch") + field(6, body) + field(20, 5) + b""
    other = field(1, "else_branch") + field(6, body) + field(20, 5)
    yield "if", onnx([field(1, "k") + field(2, "y") + field(4, "If") + field(5, branch) + field(5, other)],
                     [field(2, 9) + field(8, "k") + field(9, b"\1")])
    function = (field(1, "F") + field(4, "a") + field(5, "b") + field(7, onnx_node("Relu", ["a"], ["b"])) + field(9, field(2, 18)) + field(10, "own"))
    yield "function", onnx([onnx_node("F", ["x"], ["y"]) + field(7, "own")]) + field(25, function) + field(8, field(1, "own") + field(2, 1))
    for name in op_names():
        yield f"{name}-1", onnx([onnx_node(name, ["x"], ["y"])], shape=(2, 3, 4))
        yield f"{name}-2", onnx([onnx_node(name, ["x", "i"], ["y"])], [initializer("i", [2], [1, 0])], (2, 3, 4))
        yield f"{name}-3", onnx([onnx_node(name, ["x", "x", "v"], ["y"])], [initializer("v", [3], small)], (2, 3, 3))


def models():
    for name, text in graphs():
        if "-" in name:
            continue
        parameters = {"c.weight": [8, 3, 3, 3], "b.running_mean": [8], "b.running_var": [8], "g.weight": [1, 1, 1, 1]}
        header = {"__metadata__": {"lamina.graph": text, "lamina.labels": "one\ntwo",
                                   "lamina.preprocess": json.dumps({"resize": 8, "crop": 8, "mean": [0.4, 0.4, 0.4], "std": [0.2, 0.2, 0.2]})}}
        at = 0
        for key, shape in parameters.items():
            size = 4
            for extent in shape:
                size *= extent
            if f'"{key[0]}"' in text:
                header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
                at += size
        yield name, safetensors(header, struct.pack("<f", 0.5) * (at // 4))


def golden(folder, *patterns, most=MOST_BYTES):
    for pattern in patterns:
        for path in sorted((GOLDEN / folder).glob(pattern)):
            if path.stat().st_size <= most:
                yield path.name, path.read_bytes()


def pickles():
    for path in sorted((GOLDEN / "files").glob("*.p*t*")):
        if not zipfile.is_zipfile(path):
            continue
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith("data.pkl"):
                    yield path.name, archive.read(name)


def headers():
    yield from golden("files", "*.safetensors")
    yield "empty", safetensors({})
    yield "two", safetensors({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                              "b": {"dtype": "BOOL", "shape": [], "data_offsets": [8, 9]}}, bytes(9))
    for dtype, size in (("F16", 2), ("BF16", 2), ("I64", 8), ("U8", 1), ("F8_E4M3", 1), ("F64", 8)):
        yield dtype, safetensors({"t": {"dtype": dtype, "shape": [1, 3], "data_offsets": [0, 3 * size]}}, bytes(3 * size))


def quoted(words):
    return "".join('"' + "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\x{ord(c):02x}" for c in word) + '"\n'
                   for word in words)


def detectors():
    """As detectors.cpp draws them: one output or more, of forms that its tasks have and have not."""
    boxes = {"raw": [0, 0, 1, 2], "rows": [0, 0, 2, 3], "masks": [0, 0, 4, 2], "points": [0, 0, 2, 5], "flat": [4, 0, 1], "maps": [1, 0, 1, 6, 6]}
    planes = [[1, 0, 7, 6, 6], [1, 0, 0, 0, 0], [1, 0, 7, 6, 2], [0, 0, 7, 6]]
    for task in range(6):
        for name, form in boxes.items():
            for more in (0, 2):
                outputs = [form] + [planes[(task + k) % 4] for k in range(more)]
                yield f"{name}-{task}-{more}", bytes([0, task, 0, 0, 0, 0, 1, 0, [0, 1, 2, 4][more], *(b for f in outputs for b in (*f, 0, 7, task % 3))])


def dictionaries():
    numbers = ["0", "-1", "1e400", "2147483647", "9223372036854775807", "-9223372036854775808", "4611686018427387904"]
    tensors = ['"dtype":"', '"shape":[', '"data_offsets":[', '"__metadata__":{', "F32", "F16", "BF16", "F64", "I64", "U8", "BOOL", "F8_E5M2"]
    words = ['"inputs":[', '"nodes":[', '"outputs":[', '"attrs":{', '"op":"', '"name":"', '"shape":[', '"N"', '"?"', "true", '"x"', "[1,1]"]
    everything = words + LAYERS + LAYER_ATTRIBUTES + op_names() + attribute_names() + numbers
    yield "safetensors", tensors + numbers
    yield "npy", ["\x93NUMPY", "'descr': '", "'fortran_order': ", "'shape': (", "True", "<f4", ">i8", "|b1", "<f2", "|u1", "(1,)", "\x02\x00"] + numbers
    zipped = ["PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07", "\x01\x00\x18\x00", "\xff\xff\xff\xff"]
    pickled = ["ctorch._utils\n_rebuild_tensor_v2\n", "ctorch._utils\n_rebuild_parameter\n", "ccollections\nOrderedDict\n", "ctorch\nFloatStorage\n",
               "ctorch\nBFloat16Storage\n", "ctorch\nBoolStorage\n", "cargparse\nNamespace\n", "X\x07\x00\x00\x00storage", "state_dict", "\x80\x02", "\x8a\x08",
               "\x8e", "\x94", "\x93", "q\x00", "h\x00", "r\x00\x00\x00\x00", "}(", "](", "tR", "(t", "N.", "\x85", "\x86", "\x87", "Q", "b", "s", "u", "e", "\x89", "\x88"]
    yield "pth", zipped + pickled
    yield "pickle", pickled
    yield "png", ["IHDR", "PLTE", "IDAT", "IEND", "tRNS", "gAMA", "CgBI", "eXIf", "x\x9c"]
    yield "jpeg", ["\xff\xd8", "\xff\xe0", "\xff\xe1", "\xff\xee", "\xff\xdb", "\xff\xc4", "\xff\xc0", "\xff\xc1", "\xff\xc2", "\xff\xda", "\xff\xdd", "\xff\xd0",
                   "\xff\xd9", "\xff\x00", "Exif\x00\x00", "II*\x00", "MM\x00*", "\x12\x01\x03\x00", "Adobe"]
    yield "bitmap", ["BM", "P5", "P6", "P4", "#", "\n", "\x28\x00\x00\x00", "\x7c\x00\x00\x00", "TRUEVISION-XFILE.\x00", "65535", "255"]
    yield "webp", ["RIFF", "WEBP", "VP8 ", "VP8L", "VP8X", "ALPH", "ANIM", "ANMF", "EXIF", "ICCP", "\x9d\x01\x2a", "\x2f"]
    yield "heic", ["ftypheic", "ftypmif1", "meta", "hdlr", "pict", "pitm", "iloc", "iinf", "infe", "hvc1", "iprp", "ipco", "ispe", "hvcC", "ipma", "irot", "imir",
                   "clap", "pixi", "colr", "nclx", "auxC", "iref", "dimg", "grid", "iovl", "iden", "idat", "mdat", "Exif", "thmb", "cdsc"]
    yield "graph", everything
    yield "model", everything + tensors + ["lamina.graph", "lamina.labels", "lamina.preprocess", "resize", "crop", "mean", "std", "divisor", "aspect", "order"]
    yield "onnx", op_names() + attribute_names() + ["ai.onnx", "then_branch", "else_branch", "If", "Loop", "Constant", "location", "offset", "length"]
    yield "http", ["GET ", "POST ", "HEAD ", " HTTP/1.1\r\n", " HTTP/1.0\r\n", "\r\n\r\n", "Host: localhost\r\n", "Content-Length: ", "Transfer-Encoding: chunked\r\n",
                   "0\r\n\r\n", "Connection: close\r\n", "Expect: 100-continue\r\n", "Content-Encoding: gzip\r\n", "Origin: http://localhost\r\n",
                   "Content-Type: multipart/form-data; boundary=xyz\r\n", "\r\n--xyz", "%2e", "/v2/models/tiny/infer", "/classify", "/features", "/filters", "?model=tiny", "&top=", "?layer=conv", "Inference-Header-Content-Length: ",
                   "Accept: application/octet-stream\r\n", '"inputs":[', '"outputs":[', '"name":"input"', '"datatype":"FP32"', '"shape":[1,3,8,8]', '"data":[', '"parameters":{',
                   '"binary_data_size":', '"binary_data":true', '"scores"', "null", "1e400", "-0", "\\ud800"]


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    corpora = {"safetensors": headers(), "npy": golden("files", "*.npy"), "pth": golden("files", "*.pt*"), "pickle": pickles(),
               "png": golden("images", "*.png"), "jpeg": golden("images", "*.jpg"), "bitmap": golden("images", "*.bmp", "*.tga", "*.p[gp]m", "*.gif", "*.tif"),
               "webp": golden("images", "*.webp"), "heic": golden("heic", "*.heic", most=5000),
               "graph": graphs(), "model": models(), "onnx": onnx_files(), "detector": detectors(), "http": requests((GOLDEN / "images/tiny.png").read_bytes())}
    for target, seeds in corpora.items():
        (folder / "corpus" / target).mkdir(parents=True, exist_ok=True)
        for name, data in seeds:
            (folder / "corpus" / target / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    (folder / "dictionaries").mkdir(exist_ok=True)
    for target, entries in dictionaries():
        (folder / "dictionaries" / f"{target}.dict").write_text(quoted(dict.fromkeys(entries)))


if __name__ == "__main__":
    main()
