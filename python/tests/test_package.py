"""What first-time users of the package meet: calls, copies, signatures, and what errors say."""

import copy
import inspect
import multiprocessing
import pickle
import pydoc
import re
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import lamina
import lamina.onnxruntime
import lamina.ray
import numpy as np
import onnx_writer as onnx
import pytest
from lamina._options import EXPLAINED

from conftest import ROOT


def test_a_model_is_called(digits, x):
    expected = digits.compile(device="cpu", batch=2)(x)
    assert np.array_equal(digits(x, device="cpu"), expected) and np.array_equal(digits({"input": x}), expected)
    assert np.array_equal(digits(x[:1]), expected[:1])
    wide = np.repeat(x, 2, 3)[..., ::2]  # with gaps, which a Plan refuses
    assert np.array_equal(digits(wide), expected) and np.array_equal(digits((wide,)), expected)
    assert digits.graph.nodes[0] == "input" and "classifier.6" in digits.graph.nodes
    with pytest.raises(lamina.Error, match="expected f32 .* got i32"):
        digits(x.astype("i4"))
    with pytest.raises(TypeError, match="expected an array"):
        digits("cat.jpg")
    with ThreadPoolExecutor(4) as threads:
        assert all(np.array_equal(y, expected) for y in threads.map(digits, [x] * 16))
    graph = lamina.Graph()
    out = graph.add("conv", "conv2d", graph.input("image", ("N", 1, "?", "?")), weight=np.ones((1, 1, 1, 1), np.float32))
    graph.output(out)
    model = lamina.Model(graph)
    for side in range(1, 8):
        image = np.full((1, 1, side, 3), side, np.float32)
        assert np.array_equal(model(image), image)
    graph.load({"conv.weight": np.full((1, 1, 1, 1), 2, np.float32)})
    assert np.array_equal(model(image), 2 * image)  # not what was compiled before


def test_inputs_that_have_a_value(tmp_path):
    """As an .onnx file gives one to an input: it counts where none is given, and what is given counts."""
    ports = [(name, "float32", [3]) for name in ("x", "k", "y")]
    path = onnx.write(tmp_path / "default.onnx", [onnx.node("Mul", ["x", "k"], "y")], ports[:2], ports[2:],
                      {"k": np.array([1, 2, 3], np.float32)})
    model, x, five = lamina.load(path), np.ones(3, np.float32), np.full(3, 5, np.float32)
    model.save(tmp_path / "again.onnx")
    again = lamina.load(tmp_path / "again.onnx")
    assert again.graph.optional_inputs == ("k",) and again({"x": x, "k": five}).tolist() == [5, 5, 5]
    assert model.input_names == ("x",) and model.graph.optional_inputs == ("k",)
    assert model(x).tolist() == model({"x": x}).tolist() == [1, 2, 3]
    assert model({"x": x, "k": five}).tolist() == model(x, constants={"k": five}).tolist() == [5, 5, 5]
    plan = model.compile(input_shapes={"k": (3,)}, device="cpu")
    assert plan.input_names == ("x", "k") and plan((x, five)).tolist() == [5, 5, 5]
    with pytest.raises(lamina.Error, match='no input "K"'):
        model({"x": x, "K": five})
    sized = onnx.write(tmp_path / "sized.onnx", [onnx.node("ConstantOfShape", ["n"], "y")], [("n", "int64", [1])], [("y", "float32", None)], {})
    plan = lamina.load(sized).compile(capacity={"n": 4}, device="cpu")
    assert plan(np.array([3])).tolist() == [0, 0, 0]
    with pytest.raises(lamina.Error, match="this run has 5 along an axis where there is room for 4"):
        plan(np.array([5]))
    binding = (session := lamina.onnxruntime.InferenceSession(path)).io_binding()
    for name, array in {"x": x, "k": five}.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].tolist() == [5, 5, 5]


def test_models_go_to_other_processes(digits, photos, x):
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        assert other.submit(digits.classify, photos / "7.png").result(timeout=60) == digits.classify(photos / "7.png")
    for again in (copy.copy(digits), copy.deepcopy(digits), pickle.loads(pickle.dumps(digits))):
        assert repr(again) == repr(digits) and again.preprocess == digits.preprocess and again.labels == digits.labels
        assert np.array_equal(again(x), digits(x))
    assert copy.copy(digits).graph is digits.graph is not copy.deepcopy(digits).graph
    with pytest.raises(TypeError, match="Plan"):
        pickle.dumps(digits.compile(device="cpu"))
    with pytest.raises(lamina.Error, match="was never set"):
        graph = lamina.Graph()
        graph.output(graph.add("conv", "conv2d", graph.input("x", (1, 1, 1, 1)), weight=(1, 1, 1, 1)))
        pickle.dumps(graph)


def test_signatures_say_every_keyword(digits, plan):
    def defaults(function):
        return {name: each.default for name, each in inspect.signature(function).parameters.items()}

    options = set(lamina.CompileOptions.__annotations__)
    without = {lamina.Pool: {"device"}, lamina.Detector: {"photos", "output_format", "outputs"}}
    for function in (digits, digits.compile, digits.plan_memory, digits.plan_summary, digits.classify, lamina.Pool, lamina.Detector,
                     digits.graph.compile, lamina.quantize, lamina.ray.Classifier, lamina.onnxruntime.InferenceSession):
        assert options & set(defaults(function)) == options - without.get(function, set()) and "options" not in defaults(function)
    given = defaults(digits.compile)
    assert (given["device"], given["batch"], given["precision"]) == ("auto", 1, "fp32")
    # They are the defaults, all of them, and there is none besides.
    del given["description"]
    assert digits.plan_summary(**given) == digits.plan_summary()
    assert defaults(plan) == defaults(plan.run) == {"x": inspect.Parameter.empty, "out": None, "stream": None, "stop": None, "time": None}
    assert defaults(lamina.read_image)["upright"] is True and defaults(lamina.Preprocess)["crop"] == 224
    for name in lamina.__all__:
        thing = getattr(lamina, name)
        methods = [m for n, m in vars(thing).items() if not n.startswith("_")] if isinstance(thing, type) else [thing]
        for function in filter(callable, methods):
            assert inspect.signature(function) and inspect.getdoc(function), function
    assert all(f"{name}: {text}" in pydoc.plain(pydoc.render_doc(lamina.CompileOptions)) for name, text in EXPLAINED.items())
    assert "batch: int = 1" in pydoc.plain(pydoc.render_doc(lamina.Model.compile)).replace("'", "")


def test_misspelt_names_are_refused(digits, photos):
    """In the name of the function that was called, with the keyword that was meant."""
    for call, said in ((lambda: digits.classify(photos, topp=3), 'classify: there is no option "topp"; nearest: "top"'),
                       (lambda: digits(np.zeros((1, 3, 32, 32), np.float32), bath=1), 'Model: there is no option "bath"; nearest: "batch"'),
                       (lambda: lamina.onnxruntime.InferenceSession("x", provider=[]), 'InferenceSession: .* "provider"; nearest: "providers"'),
                       (lambda: lamina.Pool(digits, device="cpu"), 'Pool: .* "device"; nearest: "devices"')):
        with pytest.raises(TypeError, match=said):
            call()
    model = copy.copy(digits)
    with pytest.raises(AttributeError, match="preproces"):
        model.preproces = None
    for labels, said in (("abcde", "a list of texts"), ([1, 2], "a list of texts"), (["a"], "10, one for each class, got 1"), ("imagenet", "10, one for each class, got 1000")):
        with pytest.raises(lamina.Error, match=f"labels: expected {said}"):
            model.labels = labels
    model.preprocess = "imagenet"
    assert repr(model.preprocess) == repr(lamina.torchvision_imagenet().replace(resize=37, crop=32))  # 256 / 224 of the model's 32
    for settings, said in (("imagnet", 'expected one of imagenet, symmetric, caffe, yolo, yolox, got "imagnet"'), (3, "a name of one or None, got 3")):
        with pytest.raises(lamina.Error, match=f"preprocess: .*{said}"):
            model.preprocess = settings
    model.preprocess = "yolox"
    assert model.preprocess.order == "bgr" and model.preprocess.placement == "corner" and model.preprocess.crop == 32


def test_a_file_is_asked_for(digits):
    class Proto:
        def SerializeToString(self):
            return b""

    with pytest.raises(TypeError, match=r"got Proto; call SerializeToString\(\) for its bytes"):
        lamina.load(Proto())
    with pytest.raises(TypeError, match="expected a path, .* got Model"):
        lamina.load(digits)


def test_labels_are_those_of_the_classes(photos):
    """A single sigmoid has two, whenever the labels are set."""
    graph = lamina.Graph()
    x = graph.add("mean", "GlobalAveragePool", graph.input("x", ("N", 3, 8, 8)))
    x = graph.add("fc", "linear", graph.add("flat", "flatten", x), weight=np.ones((1, 3), np.float32), bias=np.zeros(1, np.float32))
    graph.output(graph.add("probability", "Sigmoid", [x]))
    model = lamina.Model(graph, lamina.Preprocess(8, 8))
    photo = sorted(photos.glob("*.png"))[0]
    assert len(model.classify(photo)) == 2
    model.labels = ["cat"]
    with pytest.raises(lamina.Error, match="expected 2 labels, one for each class, got 1"):
        model.classify(photo)
    model.labels = ["dog", "cat"]
    assert {name for name, _ in model.classify(photo)} == {"dog", "cat"}


def test_messages_are_in_pythons_words(tmp_path):
    """The library's name the field of C++'s options, and no flag; Python says the keyword."""
    graph = lamina.Graph()
    graph.output(graph.add("relu", "relu", graph.input("x", ("N", "?"))))
    with pytest.raises(lamina.Error, match=r"is open; input_shapes gives it$"):
        graph.compile(device="cpu")
    for source in set((ROOT / "framework").rglob("*.cpp")) - {ROOT / "framework/c/status.cpp"}:  # which has C's words
        code = re.sub(r"//.*", "", source.read_text())
        texts = re.sub(r"`scripts/[^`]*`", "", "".join(re.findall(r'"(?:\\.|[^"\\\n])*"', code)))  # a script's flags are its own
        assert not re.search(r"--[a-z]", texts), source


def test_what_a_file_leaves_open_is_said(tmp_path):
    """y = Reshape(Relu(x), shape), where x is of any rank."""
    file = ROOT / "tests/golden/open_shape.onnx"
    x, shape = np.float32([[-1, 1, 2], [3, 4, 5]]), np.int64([3, 2])
    lamina.load(file).save(tmp_path / "open.safetensors")
    for model in (lamina.load(file), lamina.load(tmp_path / "open.safetensors")):
        assert model.input_shapes == (("...",), (2,))
        with pytest.raises(lamina.Error, match=r"x: its shape \[\.\.\.\] is open; input_shapes gives it$"):
            model.compile(device="cpu")
        with pytest.raises(lamina.Error, match='depends on input "shape"; give its value as constants; or the most that it may be, as capacity$'):
            model.compile(device="cpu", input_shapes={"x": (2, 3)})
        plan = model.compile(device="cpu", input_shapes={"x": (2, 3)}, constants={"shape": shape})
        np.testing.assert_array_equal(plan(x), [[0, 1], [2, 3], [4, 5]])
    from lamina import onnxruntime as ort
    session = ort.InferenceSession(file, constants={"shape": shape})
    assert [port.shape for port in session.get_inputs()] == [[]]
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], plan(x))
    with pytest.raises(lamina.Error, match="shape: expected extents of 0 or more"):
        model.compile(device="cpu", input_shapes={"x": ("...", 2)})


def test_without_the_gil():
    """A free-threaded interpreter that was told to do without the GIL."""
    program = "import sys; sys._is_gil_enabled = lambda: False\nimport lamina"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "ImportError: lamina: expected an interpreter with the GIL" in done.stderr


def test_a_value_of_another_graph():
    one, other = lamina.Graph(), lamina.Graph()
    x, y = (graph.input(name, ("N", 4)) for graph, name in ((one, "x"), (other, "y")))
    assert repr(y) == "<lamina.Value of node y>"
    for wrong in (lambda: one.add("relu", "relu", y), lambda: one.add("sum", "add", [x, y]), lambda: one.output(y)):
        with pytest.raises(lamina.Error, match="<lamina.Value of node y> is a value of another graph"):
            wrong()
    for wrong in (5, [x, "x"]):
        with pytest.raises(TypeError):
            one.add("sum", "add", wrong)
    with pytest.raises(TypeError, match="expected a Value"):
        one.output("x")
    one.output(one.add("relu", "relu", x))


def test_nearest_names(digits):
    with pytest.raises(lamina.Error, match='no node "clasifier.6"; nearest: "classifier.6"'):
        digits.graph.until("clasifier.6")
    with pytest.raises(lamina.Error, match='no node "clasifier.6" to be an output; nearest: "classifier.6"'):
        digits.compile(device="cpu", outputs=["clasifier.6"])
    with pytest.raises(lamina.Error, match='no input "imput"; nearest: "input"'):
        digits.compile(device="cpu", input_shapes={"imput": (1, 3, 32, 32)})
    plan = digits.compile(device="cpu", keep_all=True)
    with pytest.raises(lamina.Error, match='no node "clasifier.6"; nearest: "classifier.6"'):
        plan.activation("clasifier.6")


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_the_module_shows_nothing_else():
    """What it has of a C++ library is nobody's to see: beside PyTorch's it crashed in a stream."""
    shown = subprocess.run(["nm", "-D", "--defined-only", lamina._core.__file__], capture_output=True, text=True, check=True)
    assert shown.stdout.split()[1:] == ["T", "PyInit__core"]


def test_strange_names_and_sizes():
    with pytest.raises(lamina.Error, match=r"a\\xff: there is no such file"):
        lamina.load("a\udcff")
    with pytest.raises(TypeError, match="path"):
        lamina.load("a\0b")
    with pytest.raises(TypeError, match="weights: expected a path, the bytes of a file, or a dict of arrays, got 5"):
        lamina.Graph().load(5)
    with pytest.raises(lamina.Error, match="more elements than 64 bits can count"):
        lamina.Graph().input("x", (2**62, "N", 2**62))
