"""What lamina.onnxruntime says and gives is what ONNX Runtime says and gives, of models of every sort.

What ONNX Runtime 1.32 answers is kept in onnxruntime_surface.json: `python test_onnxruntime_surface.py` asks it anew where
it is installed.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx_writer as onnx
import pytest

KEPT = Path(__file__).with_name("onnxruntime_surface.json")
F, I = "float32", "int64"
RELU, IMAGE = [onnx.node("Relu", ["x"], "y")], ["n", 3, "h", "w"]
HEAD = [onnx.node("Conv", ["x", "w"], "c", kernel_shape=[1, 1]), onnx.node("GlobalAveragePool", ["c"], "p"),
        onnx.node("Flatten", ["p"], "y", axis=1)]
WEIGHT = {"w": np.array([[1, 2, 3], [3, -2, 1]], np.float32)[:, :, None, None]}
# nodes, inputs, outputs, constants, further fields of the model
MODELS = {
    "fixed": (RELU, [("x", F, [2, 3])], [("y", F, [2, 3])]),
    "open_batch": (RELU, [("x", F, ["batch", 3])], [("y", F, ["batch", 3])]),
    "same_name_twice": (RELU, [("x", F, ["n", 2, "n"])], [("y", F, ["n", 2, "n"])]),
    "no_names": (RELU, [("x", F, [None, 3, None])], [("y", F, [None, 3, None])]),
    "open_image": (HEAD, [("x", F, IMAGE)], [("y", F, ["n", 2])], WEIGHT),
    "outputs_by_inference": (HEAD, [("x", F, IMAGE)], [("y", F, ["n", "classes"])], WEIGHT),
    "outputs_without_shapes": (HEAD, [("x", F, ["n", 3, 4, 4])], [("c", F, None), ("y", F, None)], WEIGHT),
    "three_outputs": ([onnx.node("TopK", ["x", "k"], "best", "place", axis=1), onnx.node("Neg", ["best"], "less")],
                      [("x", F, ["n", 4])], [("less", F, ["n", 2]), ("place", I, ["n", 2]), ("best", F, ["n", 2])],
                      {"k": np.array([2])}),
    "scalar": ([onnx.node("ReduceMax", ["x"], "y", keepdims=0)], [("x", F, [2, 3])], [("y", F, [])]),
    "default": ([onnx.node("Mul", ["x", "k"], "y")], [("x", F, [3]), ("k", F, [3])], [("y", F, [3])],
                {"k": np.array([1, 2, 3], np.float32)}),
    "two_inputs": ([onnx.node("Gather", ["table", "at"], "y", axis=0)], [("at", I, ["n"]), ("table", F, ["rows", 2])],
                   [("y", F, ["n", 2])]),
    "described": (RELU, [("x", F, ["n"])], [("y", F, ["n"])], {},
                  [(2, "Writer"), (4, "test.pets"), (5, 7), (6, "Tells pets apart"), (14, onnx.field(1, "a") + onnx.field(2, "b"))]),
    **{f"of_{kind}": ([onnx.node("Cast", ["x"], "y", to=1), onnx.node("Cast", ["y"], "z", to=onnx.TYPES[kind])],
                      [("x", kind, ["n", 2])], [("z", kind, ["n", 2])])
       for kind in ("uint8", "int32", "int64", "bool", "float16", "float64")},
}


def written(name, folder):
    nodes, inputs, outputs, *rest = MODELS[name]
    constants, fields = (*rest, {}, ())[:2] if rest else ({}, ())
    return onnx.write(Path(folder) / f"{name}.onnx", nodes, inputs, outputs, constants, of_model=fields or ())


def surface(ort, name, folder):
    """All that a program can ask, in words and numbers."""
    session = ort.InferenceSession(path_or_bytes=str(written(name, folder)), providers=["CPUExecutionProvider"])
    ports = {each: [str(port) for port in getattr(session, each)()]
             for each in ("get_inputs", "get_outputs", "get_overridable_initializers")}
    meta = session.get_modelmeta()
    said = {**ports, "meta": [getattr(meta, each) for each in sorted(dir(meta)) if not each.startswith("_")]}

    def full(extent, rows):
        return extent if isinstance(extent, int) else rows

    def feed(rows):
        return {port.name: (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(numpy_of(port))
                for port in session.get_inputs()
                for shape in [[full(extent, rows if i == 0 and port.name == first.name else 2) for i, extent in enumerate(port.shape)]]}

    def numpy_of(port):
        return {"tensor(float)": np.float32, "tensor(double)": np.float64}.get(port.type) or np.dtype(port.type[7:-1])

    def answer(ask):
        try:
            return [[each.dtype.name, list(each.shape), np.asarray(each, float).ravel().tolist()] for each in ask()]
        except Exception as error:
            known = hasattr(importlib.import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state"), type(error).__name__)
            return type(error).__name__ if known else "ValueError" if isinstance(error, ValueError) else type(error)

    names, first = [port.name for port in session.get_outputs()], session.get_inputs()[0]
    given = feed(2)
    swapped = {**given, first.name: given[first.name].astype(np.int16)}
    said["run"] = answer(lambda: session.run(None, given))
    said["backwards"] = answer(lambda: session.run(names[::-1], given))
    said["last"] = answer(lambda: session.run(names[-1:], given))
    said["lists"] = answer(lambda: session.run([], {port: array.tolist() for port, array in given.items()}))
    said["gaps"] = answer(lambda: session.run(None, {port: np.repeat(array, 2, -1)[..., ::2] for port, array in given.items()}))
    said["none"] = answer(lambda: session.run(None, feed(0))) if not isinstance((first.shape or [0])[0], int) else ""
    said["given"] = [answer(lambda: session.run(None, {**given, port.name: np.full(port.shape, 5, np.float32)}))
                     for port in session.get_overridable_initializers()]
    said["wrong"] = [answer(lambda: session.run(["nobody"], given)), answer(lambda: session.run(None, {})),
                     answer(lambda: session.run(None, {**given, "nobody": given[first.name]})),
                     answer(lambda: session.run(None, {"nobody": given[first.name]})), answer(lambda: session.run(None, swapped)),
                     answer(lambda: session.run(None, {**given, first.name: given[first.name][None]}))]
    said["after"] = [str(port) for port in session.get_outputs()]
    return said


@pytest.mark.parametrize("name", MODELS)
def test_the_surface_is_onnx_runtimes(name, tmp_path):
    found = json.loads(json.dumps(surface(importlib.import_module("lamina.onnxruntime"), name, tmp_path)))
    assert found == json.loads(KEPT.read_text())[name]


if __name__ == "__main__":
    runtime = importlib.import_module("onnxruntime")
    runtime.set_default_logger_severity(4)
    with tempfile.TemporaryDirectory() as scratch:
        rows = [f"{json.dumps(each)}: {json.dumps(surface(runtime, each, scratch))}" for each in MODELS]
    KEPT.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    sys.exit(0)
