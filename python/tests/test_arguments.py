"""What is said of arguments that do not fit: what was expected and what was given, in the words of what was called."""

import copy
import errno
import pickle
import re

import lamina
import numpy as np
import pytest
from conftest import ROOT

ONES = np.ones((2, 3, 32, 32), np.float32)
DIGIT = ROOT / "weights/digits/7.png"
RAW = ROOT / "tests/golden/detect/raw.onnx"


def plan(*arguments, **keywords):
    return digits().compile(batch=2, device="cpu")(*arguments, **keywords)


def digits():
    return lamina.load(ROOT / "weights/digits.safetensors")


def detector(**keywords):
    return lamina.Detector(RAW, device="cpu", **keywords)


REFUSED = {
    "a second array is no out": (lambda: plan(ONES, ONES), TypeError, "plan: expected x, and out, stream, stop and time by name; several inputs are a tuple"),
    "an option of none": (lambda: plan(ONES, otu=ONES), TypeError, 'plan: there is no option "otu"; nearest: "out"'),
    "no array": (lambda: plan(), TypeError, "input: expected an array"),
    "a time in words": (lambda: plan(ONES, time="soon"), TypeError, "time: expected seconds or None, got 'soon'"),
    "a stop that is none": (lambda: plan(ONES, stop=3), TypeError, "stop: expected a lamina.Stop or None"),
    "two by place": (lambda: digits()(ONES, ONES), TypeError, "Model: expected x and the rest by name, got 2 by place; several inputs are a tuple"),
    "no images of another form": (lambda: digits()(ONES[:0, :2]), lamina.Error, r"expected f32 \[N, 3, 32, 32\], got f32 \[0, 2, 32, 32\]$"),
    "no batch that nobody gave": (lambda: digits()(ONES[:, :, :31]), lamina.Error, r"input: expected f32 \[N, 3, 32, 32\], got f32 \[2, 3, 31, 32\]$"),
    "a name misspelt": (lambda: lamina.load("digit"), lamina.NoSuchFile, 'cannot read digit: there is no such file, and no model of that name; nearest: "digits"'),
    "weights alone": (lambda: lamina.load(ROOT / "tests/golden/files/dtypes.safetensors"), lamina.Error, r"it holds weights only, which lamina.arch or a graph's load\(\) takes"),
    "an address": (lambda: lamina.load("https://x/a.onnx"), lamina.NoSuchFile, "cannot read https://x/a.onnx: Lamina opens no addresses; download it first"),
    "complex numbers": (lambda: plan(ONES.astype(np.complex64)), lamina.Error, "input: expected an array of numbers or bools, got elements of complex64$"),
    "whole numbers": (lambda: digits()(ONES.astype(int)), lamina.Error, r'got i64 \[2, 3, 32, 32\]; x.astype\("float32"\) has that type$'),
    "a type of nanobind's": (lambda: digits().graph.summary("2"), TypeError, "^batch: expected int, got str"),
    "one too few": (lambda: lamina.Graph().input("x"), TypeError, "^input: missing a required argument: 'shape'"),
    "a path of nothing": (lambda: lamina.load(""), lamina.NoSuchFile, "expected the path of a file, got an empty text"),
    "a photograph of nothing": (lambda: digits().classify(""), lamina.NoSuchFile, "photo: expected the path of a file, got an empty text"),
    "keywords by place": (lambda: digits().compile(32), TypeError, "compile: expected keywords alone, got 1 by place"),
    "a path of another type": (lambda: digits().save(3), TypeError, r"path: expected str \| os.PathLike\[str\], got int"),
    "a model that is none": (lambda: lamina.Pool(3), TypeError, "model: expected a lamina.Model, got int"),
    "a graph that is none": (lambda: lamina.Model(3), TypeError, "graph: expected a lamina.Graph, got int"),
    "labels that are none": (lambda: setattr(digits(), "labels", 3), lamina.Error, "labels: expected a list of texts, one for each class, got 3"),
    "no classes": (lambda: digits().classify(DIGIT, 0), lamina.Error, "top: expected 1 or more, got 0"),
    "classes in halves": (lambda: digits().classify(DIGIT, 2.5), TypeError, "top: expected a whole number, got 2.5"),
    "a batch of none": (lambda: digits().classify(DIGIT, batch=0), lamina.Error, "batch: expected 1 or more, got 0"),
    "PyTorch's name": (lambda: digits().compile(precision="half"), lamina.Error, 'precision: "half" is called "fp16" here'),
    "another name of a GPU": (lambda: digits().compile(device="gpu:1"), lamina.Error, 'got "gpu:1"; a GPU is called cuda'),
    "a way misspelt": (lambda: lamina.preprocess(DIGIT, "imagnet"), lamina.Error, 'got "imagnet"; nearest: "imagenet"'),
    "pixels in floats": (lambda: digits().classify(np.ones((8, 8, 3), np.float32)), lamina.Error, "numbers from 0 to 1 become levels by"),
    "an op without operands": (lambda: lamina.Graph().add("y", "Relu", []), lamina.Error, "^y: Relu: expected 1 operands, got 0"),
    "a field": (lambda: setattr(lamina.describe("cpu"), "architecture", "new"), TypeError, "architecture: expected int, got str"),
    "a stop of something": (lambda: lamina.Stop(3), TypeError, "^expected no arguments, got 1"),
    "a graph of something": (lambda: lamina.Graph(name="x"), TypeError, "^expected no arguments, got 1"),
    "a setting": (lambda: lamina.Preprocess(crp=3), TypeError, 'Preprocess: there is no setting "crp"; nearest: "crop"'),
    "a setting of another type": (lambda: lamina.Preprocess(order=3), TypeError, "order: expected a text, got 3"),
    "a mean of levels": (lambda: lamina.Preprocess(mean=(123.675, 116.28, 103.53)), lamina.Error, "with divisor=255 photographs are numbers up to 1, got 123.675"),
    "a size that is another": (lambda: detector(size=32), lamina.Error, r"raw.onnx: the model's input \[1, 3, 64, 96\] is of one size, and not of 32"),
    "a size in words": (lambda: detector(size="large"), TypeError, "size: expected int, got str"),
    "a device by number": (lambda: lamina.Detector(RAW, 0), TypeError, "device: expected str, got int"),
    "a class that is not there": (lambda: detector()(DIGIT, classes=[7]), lamina.Error, "classes: the model's are 0 to 2, got 7"),
    "a class below": (lambda: detector()(DIGIT, classes=[-1]), lamina.Error, "classes: the model's are 0 to 2, got -1"),
    "half a class": (lambda: detector()(DIGIT, classes=[0.5]), TypeError, "classes: expected names or numbers of classes, got 0.5"),
}


@pytest.mark.parametrize("call, kind, words", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(call, kind, words):
    with pytest.raises(kind, match=words) as raised:
        call()
    assert "incompatible function arguments" not in str(raised.value)


def test_a_class_may_be_one():
    found = detector()(DIGIT, 0.01, classes="dog")
    assert set(found.names) == {"dog"} and detector()(DIGIT, 0.01, classes=2).names == found.names


@pytest.mark.parametrize("call", [lambda: lamina.load("no.onnx"), lambda: digits().classify("no.onnx"), lambda: lamina.Detector("no.onnx")])
def test_a_missing_file_has_its_name(call):
    with pytest.raises(FileNotFoundError) as raised:
        call()
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, "no.onnx")
    assert str(raised.value) == raised.value.args[0] and not str(raised.value).startswith("[Errno")


def test_levels_keep_their_mean():
    settings = lamina.Preprocess(mean=(123.675, 116.28, 103.53), std=58, divisor=1)
    assert copy.copy(settings) == pickle.loads(pickle.dumps(settings)) == settings


def test_inputs_are_known_before_a_plan_is():
    model = digits()
    assert (model.input_shapes, model.input_dtypes) == ((("N", 3, 32, 32),), ("f32",)) and model.output_shapes == (("N", 10),)
    graph = lamina.Graph()
    graph.output(graph.add("y", "LeakyRelu", graph.input("x", ("N", 3, "?", 8))))
    assert lamina.load(ROOT / "tests/golden/detect/raw.onnx").output_shapes == ((1, 7, 60),)  # of ops, before they are compiled
    assert graph.output_shapes == (None,) and lamina.Model(graph).output_shapes == (("N", 3, "?", 8),)


def test_no_images_have_no_answers():
    assert [digits()(x[:0], device="cpu").shape for x in (ONES, ONES.transpose(0, 2, 3, 1))] == [(0, 10)] * 2
    assert digits()({"input": ONES[:0]}, device="cpu").dtype == np.float32


def test_texts_are_short():
    with open(DIGIT, "rb") as file:
        content = file.read()
    for rows in (digits().classify([content, np.zeros((300, 300, 3), np.uint8)]), detector()([content, np.zeros((300, 300, 3), np.uint8)]),
                 lamina.Detector(ROOT / "tests/golden/detect/segment.onnx", device="cpu")(DIGIT)[:1]):
        assert all(len(repr(row)) < 500 for row in rows)
    assert f"photo=<{len(content)} bytes>" in repr(digits().classify([content]))


def test_numbers_of_numpy_are_numbers():
    graph = lamina.Graph()
    x = graph.input("x", np.array([1, 3, 8, 8]))
    for place, stride in enumerate((2, np.int64(2), np.array([2, 2]), [np.int32(2), 2], (np.uint8(2), np.int64(2)))):
        y = graph.add(f"conv{place}", "conv2d", x, weight=(np.int64(4), 3, 3, 3), stride=stride)
    y = graph.add("turned", "Transpose", y, perm=np.array([0, 2, 3, 1]))
    graph.output(graph.add("y", "LeakyRelu", y, alpha=np.float32(0.5)))
    assert graph.summary().count("[1, 4, 3, 3]") == 5 and lamina.Model(graph).output_shapes == ((1, 3, 3, 4),)
    for wrong in (np.zeros((2, 2), int), [[1]], None, np.array(["a"], object)):
        with pytest.raises(lamina.Error, match="stride: expected a number, a bool, a text or a list of numbers, got "):
            graph.add("wrong", "conv2d", x, weight=(4, 3, 3, 3), stride=wrong)


def test_ops_are_checked_when_they_are_added():
    graph = lamina.Graph()
    x = graph.input("x", ("N", 3, 8, 8))
    several = graph.add("conv", "conv2d", x, weight=(4, 3, 3, 3))
    for op, inputs, fields, said in (("Softmax", x, {"axes": 1}, 'unknown attribute "axes"; nearest: "axis"'),
                                     ("Softmax", several, {"axis": 9}, "Softmax: there is no axis 9 among 4"),
                                     ("MatMul", x, {}, "MatMul: expected operand 2, got 1"),
                                     ("Transpose", x, {"perm": [0, 1]}, "Transpose: expected a perm of 4 axes, got 2"),
                                     ("conv2d", x, {"weights": (4, 3, 3, 3)}, 'conv2d: expected an array or a shape, "weight"')):
        with pytest.raises(lamina.Error, match="^wrong: " + re.escape(said)):
            graph.add("wrong", op, inputs, **fields)
    assert "wrong" not in graph.nodes
    # What some number of images, or some value, may make right is not refused before that is known.
    eight = graph.add("eight", "Reshape", [x, graph.constant("shape", np.array([8, 192]))])
    told = graph.add("told", "Reshape", [x, graph.input("to", (2,), "i64")])
    graph.output(graph.add("y", "Softmax", eight, axis=1))
    graph.output(graph.add("z", "Relu", told))
    with pytest.raises(lamina.Error, match="eight: Reshape: cannot read"):
        graph.compile(device="cpu", batch=7, constants={"to": np.array([1, -1])})
    assert [y.shape for y in graph.compile(device="cpu", batch=8, constants={"to": np.array([1, -1])})(np.ones((8, 3, 8, 8), np.float32))] == [
        (8, 192), (1, 1536)]


def test_lists_of_what_is_no_number_are_refused(digits):
    x = np.zeros((1, 3, 32, 32)).tolist()
    for wrong in (None, "5", 1j, b"5"):
        x[0][0][0][0] = wrong
        for given in (x, {"input": x}, (x,)):
            with pytest.raises(lamina.Error, match=f"^input: expected numbers, got {re.escape(repr(wrong))}$"):
                digits(given)
    x[0][0][0] = [1]
    with pytest.raises(lamina.Error, match="^input: expected numbers in lists of the same lengths"):
        digits(x)
