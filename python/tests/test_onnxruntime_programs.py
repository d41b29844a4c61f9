"""Programs written for ONNX Runtime run when their import line is changed, and nothing else.

What they compute is held to plain NumPy, and to ONNX Runtime itself where it is installed.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx_writer as onnx
import pytest
from conftest import ROOT

PROGRAMS = Path(__file__).parent / "onnxruntime_programs"
IMPORT = "import onnxruntime as ort"


def run(name, model, folder, module):
    """What a program prints and saves."""
    text = (PROGRAMS / f"{name}.py").read_text()
    assert text.count("import onnxruntime") == 1 and IMPORT in text
    program, saved = folder / f"{module}_{name}.py", folder / f"{module}.npy"
    program.write_text(text.replace(IMPORT, f"import {module} as ort"))
    done = subprocess.run([sys.executable, program, model, saved], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, np.load(saved)


def check(name, model, folder, said, expected=None):
    """said: what is printed, as a regular expression. expected: what is saved."""
    printed, found = run(name, model, folder, "lamina.onnxruntime")
    assert re.fullmatch(said, printed), printed
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if importlib.util.find_spec("onnxruntime"):
        theirs, values = run(name, model, folder, "onnxruntime")
        np.testing.assert_allclose(found, values, rtol=1e-3, atol=1e-4)
        assert printed == theirs


@pytest.fixture
def random():
    return np.random.default_rng(7)


def test_first_model(tmp_path, random):
    weights = random.standard_normal((3, 4), np.float32)
    model = onnx.write(tmp_path / "mul.onnx", [onnx.node("Mul", ["X", "W"], "Y")], [("X", "float32", [3, 4])],
                       [("Y", "float32", [3, 4])], {"W": weights})
    x = np.random.default_rng(0).random((3, 4), np.float32)
    check("first_model", model, tmp_path, r"input X: \[3, 4\] tensor\(float\)\noutput Y: \[3, 4\] tensor\(float\)\n"
          r"refused: True\n", x * weights)


def test_classify(tmp_path, random):
    nodes = [onnx.node("Conv", ["data", "w", "b"], "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
             onnx.node("Relu", ["c"], "r"), onnx.node("GlobalAveragePool", ["r"], "p"),
             onnx.node("Flatten", ["p"], "f", axis=1), onnx.node("Gemm", ["f", "v", "z"], "scores", transB=1)]
    w, v = (random.standard_normal(shape, np.float32) for shape in ((16, 3, 3, 3), (10, 16)))
    b, z = (random.standard_normal(count, np.float32) for count in (16, 10))
    model = onnx.write(tmp_path / "net.onnx", nodes, [("data", "float32", ["N", 3, 32, 32])],
                       [("scores", "float32", ["N", 10])], {"w": w, "b": b, "v": v, "z": z})
    pixels = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8).transpose(2, 0, 1) / 255
    x = (pixels - np.reshape([0.485, 0.456, 0.406], (3, 1, 1))) / np.reshape([0.229, 0.224, 0.225], (3, 1, 1))
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    maps = np.maximum(np.einsum("chwij,ocij->ohw", windows, w) + b[:, None, None], 0)
    raised = np.exp((scores := v @ maps.mean((1, 2)) + z) - scores.max())
    check("classify", model, tmp_path, r"(class=\d probability=0\.\d{4}\n){3}", raised / raised.sum())


def test_super_resolution(tmp_path, random):
    """Nine maps become one of three times the size."""
    nodes = [onnx.node("Conv", ["input", "w"], "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
             onnx.node("Reshape", ["c", "parts"], "r"), onnx.node("Transpose", ["r"], "t", perm=[0, 1, 4, 2, 5, 3]),
             onnx.node("Reshape", ["t", "whole"], "output")]
    w = random.standard_normal((9, 1, 3, 3), np.float32) / 9
    model = onnx.write(tmp_path / "super.onnx", nodes, [("input", "float32", ["batch_size", 1, 24, 24])],
                       [("output", "float32", ["batch_size", 1, 72, 72])],
                       {"w": w, "parts": np.array([-1, 1, 3, 3, 24, 24]), "whole": np.array([-1, 1, 72, 72])})
    given = np.random.default_rng(2)
    x = np.concatenate([given.random((count, 1, 24, 24), np.float32) for count in (1, 5)])
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    maps = np.einsum("nchwij,ocij->nohw", np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)), w)
    expected = maps.reshape(6, 1, 3, 3, 24, 24).transpose(0, 1, 4, 2, 5, 3).reshape(6, 1, 72, 72)
    check("super_resolution", model, tmp_path, r"\(72, 72\) uint8\n", expected)


def test_tokens(tmp_path, random):
    """The mean of the words' vectors, those that the mask leaves, then a layer."""
    nodes = [onnx.node("Gather", ["table", "input_ids"], "words"), onnx.node("Cast", ["attention_mask"], "m", to=1),
             onnx.node("Unsqueeze", ["m", "last"], "mask"), onnx.node("Mul", ["words", "mask"], "left"),
             onnx.node("ReduceSum", ["left", "second"], "sum", keepdims=0), onnx.node("ReduceSum", ["mask", "second"], "count", keepdims=0),
             onnx.node("Div", ["sum", "count"], "mean"), onnx.node("MatMul", ["mean", "v"], "logits")]
    table, v = random.standard_normal((20, 8), np.float32), random.standard_normal((8, 4), np.float32)
    shape = ["batch", "sequence"]
    model = onnx.write(tmp_path / "tokens.onnx", nodes, [("input_ids", "int64", shape), ("attention_mask", "int64", shape)],
                       [("logits", "float32", ["batch", 4])],
                       {"table": table, "v": v, "last": np.array([-1]), "second": np.array([1])})
    texts = [7, 3, 9], [1, 1, 2, 3, 5, 8, 13], [7, 3, 9]
    expected = np.stack([table[text].mean(0) @ v for text in texts])
    check("tokens", model, tmp_path, r"3 words: class \d\n7 words: class \d\n3 words: class \d\n", expected)


def test_detect(tmp_path):
    check("detect", ROOT / "tests/golden/detect/raw.onnx", tmp_path, r"(-?\d+ -?\d+ \d+ \d+\n){5}")


def test_bound(tmp_path):
    ports = [(name, "float32", [3, 4]) for name in ("X", "Y", "product", "sum")]
    model = onnx.write(tmp_path / "two.onnx", [onnx.node("Mul", ["X", "Y"], "product"), onnx.node("Add", ["X", "Y"], "sum")],
                       ports[:2], ports[2:], {})
    given = np.random.default_rng(5)
    x, y = given.random((3, 4), np.float32), given.random((3, 4), np.float32)
    check("bound", model, tmp_path, r"cpu \[3, 4\] tensor\(float\) 1 True True\n2 True True True\nTrue \(3, 4\)\n"
          r"OrtValue \[3, 4\] True \(3, 4\)\n2 True\nTrue\n", np.stack([x * y, x + x, x * x, x + x, x * x, x + x]))


def test_described(tmp_path):
    noted = {"names": "{0: 'cat', 1: 'dog'}", "imgsz": "[2, 2]"}
    v = np.array([[1, 2], [3, 4]], np.float32)
    model = onnx.write(tmp_path / "noted.onnx",
                       [onnx.node("MatMul", ["images", "v"], "m"), onnx.node("Mul", ["m", "scale"], "scores")],
                       [("images", "float32", ["batch", 2]), ("scale", "float32", [])], [("scores", "float32", ["batch", 2])],
                       {"v": v}, of_graph=[(10, "of pets")],
                       of_model=[(2, "Writer"), (4, "test.pets"), (5, 7), (6, "Tells pets apart \u00e9"),
                                 *((14, onnx.field(1, key) + onnx.field(2, text)) for key, text in noted.items())])
    check("described", model, tmp_path, r"0\nthere is no intra_op_threads\nWriter\|7\|test.pets\|Tells pets apart \u00e9\|graph\|of pets\n"
          r"dog \['imgsz', 'names'\]\n\['CPUExecutionProvider'\] \['CPUExecutionProvider'\] \[\]\ndog\n", [[12, 18]])


def test_packages(tmp_path, random):
    """Scores of four characters, whose list is noted in the file as PaddleOCR does it."""
    w = random.standard_normal((4, 3, 3, 3), np.float32)
    nodes = [onnx.node("Conv", ["x", "w"], "c", pads=[1, 1, 1, 1], strides=[2, 2]), onnx.node("HardSwish", ["c"], "h"),
             onnx.node("GlobalAveragePool", ["h"], "p"), onnx.node("Flatten", ["p"], "y", axis=1)]
    model = onnx.write(tmp_path / "net.onnx", nodes, [("x", "float32", ["DynamicDimension.0", 3, "DynamicDimension.1", "DynamicDimension.2"])],
                       [("y", "float32", ["DynamicDimension.0", 4])], {"w": w},
                       of_model=[(14, onnx.field(1, "character") + onnx.field(2, "a\nb\nc\nd"))])
    check("packages", model, tmp_path, r"([abcd] \(4,\) \['x'\] CPUExecutionProvider\n){8}")


def test_lists(tmp_path, random):
    table, v = random.standard_normal((256, 6), np.float32) / 8, random.standard_normal((6, 3), np.float32)
    nodes = [onnx.node("Gather", ["table", "bytes"], "words"), onnx.node("ReduceSum", ["words", "second"], "most", keepdims=0),
             onnx.node("MatMul", ["most", "v"], "logits"), onnx.node("Softmax", ["logits"], "target_label", axis=-1)]
    model = onnx.write(tmp_path / "net.onnx", nodes, [("bytes", "int32", ["batch", 16])], [("target_label", "float32", ["batch", 3])],
                       {"table": table, "v": v, "second": np.array([1])})
    raised = np.exp(np.stack([table[list(text)].sum(0) @ v for text in (b"#!/bin/sh\nexit 0", b"<html><body></b>")]))
    found = raised / raised.sum(1, keepdims=True)
    check("lists", model, tmp_path, r"1 \['0\.\d{3}'\]\n2 \['0\.\d{3}', '0\.\d{3}'\]\n", found[[0, 0, 1]])


def test_stream(tmp_path, random):
    """The loudness of a piece moves two rows of a state."""
    u, v = random.standard_normal((4, 4), np.float32) / 2, random.standard_normal((4, 1), np.float32)
    nodes = [onnx.node("ReduceMean", ["input"], "mean", axes=[1], keepdims=1), onnx.node("Cast", ["sr"], "rate", to=1),
             onnx.node("Div", ["mean", "rate"], "quiet"), onnx.node("Mul", ["quiet", "loud"], "m"), onnx.node("MatMul", ["state", "u"], "s"),
             onnx.node("Add", ["s", "m"], "a"), onnx.node("Tanh", ["a"], "stateN"), onnx.node("ReduceSum", ["stateN", "rows"], "r", keepdims=0),
             onnx.node("MatMul", ["r", "v"], "l"), onnx.node("Sigmoid", ["l"], "output")]
    model = onnx.write(tmp_path / "voice.onnx", nodes, [("input", "float32", [None, None]), ("state", "float32", [2, None, 4]), ("sr", "int64", [])],
                       [("output", "float32", [None, 1]), ("stateN", "float32", [2, None, 4])],
                       {"u": u, "v": v, "loud": np.array(64000, np.float32), "rows": np.array([0])},
                       of_model=[(14, onnx.field(1, "settings") + onnx.field(2, '{"hop": 128}'))])
    sound, expected = np.random.default_rng(11).standard_normal(6 * 128).astype(np.float32), []
    for pieces in (sound.reshape(6, -1), sound.reshape(3, -1)):
        state = np.zeros((2, 1, 4))
        for piece in pieces:
            state = np.tanh(state @ u + piece.mean() * 4)
            expected.append(1 / (1 + np.exp(-(state.sum(0) @ v).item())))
    check("stream", model, tmp_path, r"128 \[\[None, None\], \[2, None, 4\], \[\]\] tensor\(int64\)\n6 3 (True|False)\n", np.array(expected))
