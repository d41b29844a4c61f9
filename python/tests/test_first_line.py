"""What people hand over first: arrays of every sort, bytes, open files; and what they look at."""

import asyncio
import importlib
import inspect
import io
import pydoc
import subprocess
import sys

import lamina
import numpy as np
import onnx_writer as onnx
import pytest
from conftest import ROOT

SEVEN = ROOT / "weights/digits/7.png"


class Lender:
    """A tensor of another library, on the host."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array__(self, dtype=None, copy=None):
        return self.array


def gapped(array):
    return np.repeat(array, 2, -1)[..., ::2]


# What is made of pixels uint8 [H, W, 3] that are grey.
PICTURES = {
    "pixels": lambda p: p,
    "gaps": gapped,
    "mirrored twice": lambda p: p[:, ::-1].copy()[:, ::-1],
    "planes": lambda p: p.transpose(2, 0, 1),
    "planes, copied": lambda p: p.transpose(2, 0, 1).copy(),
    "grey": lambda p: p[..., 0],
    "grey, one channel": lambda p: p[..., :1],
    "a grey plane": lambda p: p[..., 0][None],
    "with alpha": lambda p: np.dstack([p, np.full_like(p[..., 0], 255)]),
    "planes with alpha": lambda p: np.dstack([p, np.full_like(p[..., 0], 255)]).transpose(2, 0, 1),
    "of another library": lambda p: Lender(p.transpose(2, 0, 1)),
    "bytes of a file": lambda _: SEVEN.read_bytes(),
    "a view of bytes": lambda _: memoryview(SEVEN.read_bytes()),
    "an open file": lambda _: io.BytesIO(SEVEN.read_bytes()),
    "a file that was opened": lambda _: SEVEN.open("rb"),
}


@pytest.mark.parametrize("form", PICTURES)
def test_photographs(digits, form):
    picture = PICTURES[form](lamina.read_image(SEVEN))
    assert digits.classify(picture, top=1, threads=1) == digits.classify(SEVEN, top=1, threads=1)
    detector = lamina.Detector(ROOT / "tests/golden/detect/raw.onnx", "cpu", labels=["a", "b", "c"])
    np.testing.assert_array_equal(detector(PICTURES[form](lamina.read_image(SEVEN))).boxes, detector(SEVEN).boxes)


def test_what_is_transparent_is_the_same_as_a_file_and_as_pixels(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 4), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    on_white = lamina.read_image(tmp_path / "photo.png")
    assert (on_white != pixels[..., :3]).any()
    for given in (pixels, pixels.transpose(2, 0, 1), Image.fromarray(pixels)):
        np.testing.assert_array_equal(lamina.read_image(given), on_white)
        np.testing.assert_array_equal(lamina.read_image(given, upright=False), pixels[..., :3])


def test_an_image_of_16_bits_is_the_same_as_its_file(digits, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    levels = np.random.default_rng(0).integers(0, 65536, (9, 7)).astype(np.uint16)
    for name, saved in (("grey", {}), ("clear", {"transparency": int(levels[0, 0])})):
        Image.fromarray(levels).save(tmp_path / f"{name}.png", **saved)
        picture = Image.open(tmp_path / f"{name}.png")
        for upright in (True, False):
            expected = lamina.read_image(tmp_path / f"{name}.png", upright=upright)
            np.testing.assert_array_equal(lamina.read_image(picture, upright=upright), expected)
        np.testing.assert_array_equal(expected, np.dstack([levels >> 8] * 3))
    for other in (levels.astype(np.int32), levels.astype(np.float32)):  # which of their numbers is white?
        with pytest.raises(lamina.Error, match="expected an image of 8 or 16 bits, got mode [IF], .*convert"):
            lamina.read_image(Image.fromarray(other))


@pytest.mark.parametrize("shape", [(8, 8, 2), (2, 8, 8), (8, 8, 5), (8,) * 5, (8, 8, 3, 1)])
def test_what_is_no_picture_is_named(digits, shape):
    with pytest.raises(lamina.Error, match=r"photo: expected u8 \[height, width\], \[height, width, 3\] or \[3, height, width\], or 1 or 4"):
        lamina.read_image(np.zeros(shape, np.uint8))


def test_an_array_of_photographs_is_several(digits):
    pixels = lamina.read_image(SEVEN)
    for several in (np.stack([pixels] * 3), np.stack([pixels.transpose(2, 0, 1)] * 3)):
        found = digits.classify(several, top=1, threads=1)
        assert [each.classes[0][0] for each in found] == ["seven"] * 3


# What is made of float32 [2, 3, 32, 32], or of the pixels that they were.
TENSORS = {
    "gaps": lambda x, _: gapped(x),
    "channels last": lambda x, _: x.transpose(0, 2, 3, 1),
    "channels last, copied": lambda x, _: x.transpose(0, 2, 3, 1).copy(),
    "doubles": lambda x, _: x.astype(np.float64),
    "lists": lambda x, _: x.tolist(),
    "by name": lambda x, _: {"input": x.astype(np.float64)},
    "a tuple": lambda x, _: (gapped(x),),
    "a list of one array": lambda x, _: [x.transpose(0, 2, 3, 1)],
    "of another library": lambda x, _: Lender(x.transpose(0, 2, 3, 1)),
    "pixels": lambda _, pixels: pixels,
    "planes of pixels": lambda _, pixels: pixels.transpose(0, 3, 1, 2),
    "pixels of another library": lambda _, pixels: Lender(pixels.transpose(0, 3, 1, 2).copy()),
}


@pytest.mark.parametrize("form", TENSORS)
def test_tensors(digits, form):
    photos = [ROOT / f"weights/digits/{digit}.png" for digit in (7, 3)]
    x = np.concatenate([lamina.preprocess(photo, digits.preprocess) for photo in photos])
    pixels = np.stack([lamina.resize_and_crop(photo, digits.preprocess) for photo in photos])
    np.testing.assert_array_equal(digits(TENSORS[form](x, pixels), device="cpu"), digits(x, device="cpu"))


def test_what_would_change_a_value_is_refused(digits, x):
    for other in (x.astype(np.int32), np.zeros((2, 3, 32, 32), bool), np.zeros((2, 30, 32, 3), np.uint8)):
        with pytest.raises(lamina.Error, match=r"expected f32 \[.*got"):
            digits(other, device="cpu")
    plan = digits.compile(device="cpu", batch=2)
    for strict in (x.transpose(0, 2, 3, 1), x.astype(np.float64), gapped(x)):
        with pytest.raises(lamina.Error):
            plan(strict)


def test_what_has_no_batch_in_front_is_told_how(digits, x):
    for one, hint in ((x[0], "classify"), ((x[0] * 255).astype(np.uint8), "classify"), (x[0].transpose(1, 2, 0), "classify")):
        with pytest.raises(lamina.Error, match=rf"input: expected f32 \[N, 3, 32, 32\], got .*; x\[None\] is a batch of one, and {hint}"):
            digits(one, device="cpu")
    with pytest.raises(lamina.Error, match=r"got i32 \[2, 32, 32, 3\]"):  # as it came
        digits(x.transpose(0, 2, 3, 1).astype(np.int32), device="cpu")
    with pytest.raises(lamina.Error, match=r"got f32 \[2, 3, 32, 32\].*; fewer images may be given, not more"):
        digits.compile(device="cpu")(x)
    with pytest.raises(lamina.Error, match=r"got f32 \[3, 32, 32\].*; one image is a batch of one"):
        digits.compile(device="cpu", batch=2)(x[0])


def test_a_network_of_no_such_name_is_said_before_its_file():
    with pytest.raises(lamina.Error, match="unknown network 'resnet19'; nearest: \"resnet18\""):
        lamina.arch("resnet19", "x")


@pytest.mark.parametrize("names", [(None, None), ("batch", "batch"), ("texts", "images")])
def test_open_extents_of_two_inputs_are_two_numbers(tmp_path, names):
    """Whatever the file calls them: ONNX Runtime does not compare them either."""
    nodes = [onnx.node("Transpose", ["image"], "turned", perm=[1, 0]), onnx.node("MatMul", ["text", "turned"], "y")]
    path = onnx.write(tmp_path / "clip.onnx", nodes, [("text", "float32", [names[0], 4]), ("image", "float32", [names[1], 4])],
                      [("y", "float32", [None, None])], {})
    model, rng = lamina.load(path), np.random.default_rng(0)
    session = importlib.import_module("lamina.onnxruntime").InferenceSession(path)
    for texts, images in ((3, 2), (2, 3), (2, 2), (1, 4)):
        text, image = (rng.integers(-3, 4, (rows, 4)).astype(np.float32) for rows in (texts, images))
        np.testing.assert_array_equal(model((text, image), device="cpu"), text @ image.T)
        np.testing.assert_array_equal(session.run(None, {"text": text, "image": image})[0], text @ image.T)
    with pytest.raises(lamina.Error, match='^run: input "image" is missing; expected text, image$'):
        model({"text": text}, device="cpu")
    unused = onnx.write(tmp_path / "unused.onnx", [onnx.node("Relu", ["x"], "y")], [("x", "float32", ["n"]), ("z", "float32", ["n"])],
                        [("y", "float32", ["n"])], {})
    assert lamina.load(unused)((np.ones(2, np.float32), np.ones(1, np.float32)), device="cpu").tolist() == [1, 1]


def test_results_in_bf16_are_arrays(digits, x):
    y = digits(x, device="cpu", output_format="bf16")
    assert (np.asarray(y).dtype, np.asarray(y).shape) == (np.float32, (2, 10)) and np.array_equal(np.asarray(y), y.numpy())
    np.testing.assert_allclose(np.asarray(y, np.float64), digits(x, device="cpu"), rtol=2**-8)


def test_numbers_of_integers(tmp_path):
    model = lamina.load(onnx.write(tmp_path / "net.onnx", [onnx.node("Gather", ["table", "at"], "y")], [("at", "int64", ["n"])],
                                   [("y", "float32", ["n", 2])], {"table": np.arange(6, dtype=np.float32).reshape(3, 2)}))
    for at in (np.array([2, 0], np.int32), np.array([2, 0], np.uint8), [2, 0]):
        np.testing.assert_array_equal(model(at, device="cpu"), [[4, 5], [0, 1]])


def test_models_in_memory(digits, tmp_path):
    path = ROOT / "weights/digits.safetensors"
    weights = {name: np.zeros(shape, np.float32) for name, shape in (("features.0.weight", (96, 3, 11, 11)), ("features.0.bias", (96,)))}
    np.savez(tmp_path / "weights.npz", **weights)
    for source in (path.read_bytes(), bytearray(path.read_bytes()), io.BytesIO(path.read_bytes()), path.open("rb")):
        assert lamina.load(source).classify(SEVEN, top=1, threads=1)[0][0] == "seven"
    raw = (ROOT / "tests/golden/detect/raw.onnx").read_bytes()
    assert lamina.Detector(raw, "cpu").names == lamina.Detector(io.BytesIO(raw), "cpu").names == lamina.Detector(ROOT / "tests/golden/detect/raw.onnx").names
    with pytest.raises(TypeError, match='opened as "rb"'):
        lamina.load(io.StringIO("text"))
    with pytest.raises(lamina.Error):
        lamina.load(b"not a model")


def test_class_names_in_any_case():
    detector = lamina.Detector(ROOT / "tests/golden/detect/raw.onnx", "cpu", labels=["Person", "dog", "DOG"])
    assert [detector._number(kind) for kind in ("person", "PERSON", "dog", "DOG", "Dog", 2)] == [0, 0, 1, 2, 1, 2]


def test_answers_are_awaited(digits, x):
    async def both(pool):
        return await asyncio.gather(pool.submit(x[:1]), pool.submit(x[1:]))

    with lamina.Pool(digits, "cpu", batch=2, threads=1) as pool:
        answers = asyncio.run(both(pool))
    np.testing.assert_array_equal(np.concatenate(answers), digits(x, device="cpu", threads=1))


def test_keywords_are_explained_once():
    text = "batch_invariant: An image's bits depend on no other"
    for function in (lamina.Model.compile, lamina.Graph.compile):
        assert text in function.__doc__, function
    for function in (lamina.Model.__call__, lamina.Model.classify, lamina.Detector.__init__, lamina.Pool.__init__):
        assert "Keywords of compile: help(lamina.CompileOptions)" in function.__doc__, function
        assert "**options" in pydoc.plain(pydoc.render_doc(function)), function
        assert "threads" in inspect.signature(function).parameters, function
    assert "compile" not in lamina.Model.save.__doc__
    said = pydoc.plain(pydoc.render_doc(lamina.Model))
    assert said.count(text) == 1 and said.count("linear_weights: ") == 2 and len(said) < 8000  # two screens and a half


def test_what_notebooks_show(digits, tmp_path):
    html = digits.classify(SEVEN, top=2, threads=1)._repr_html_()
    assert html.count("<tr>") == 3 and "seven" in html and "100.0 %" in html
    several = digits.classify([SEVEN, b"none"], threads=1)._repr_html_()
    assert several.count("<tr>") == 3 and "7.png" in several and "seven" in several and "photograph 2" in several
    assert "features.0" in digits._repr_html_() and "&lt;lamina.Model" in digits._repr_html_()
    found = lamina.Detector(ROOT / "tests/golden/detect/raw.onnx", "cpu", labels=["<b>", "b", "c"])(ROOT / "docs/images/chelsea.png", confidence=0)
    assert "<b>" not in found._repr_html_() and found._repr_html_().count("<tr>") == len(found.scores) + 1
    model = onnx.write(tmp_path / "net.onnx", [onnx.node("Relu", ["x"], "y")], [("x", "float32", ["a", "b"])], [("y", "float32", ["a", "b"])], {})
    assert "&lt;lamina.Model" in lamina.load(model)._repr_html_()


def test_python_m_lamina():
    said = subprocess.run([sys.executable, "-m", "lamina", "classify", SEVEN, "--model", "digits", "--top", "1"], capture_output=True, text=True)
    assert said.returncode == 0 and said.stdout.endswith("100.00 %  seven\n"), said.stderr
    said = subprocess.run([sys.executable, "-m", "lamina", "nothing"], capture_output=True, text=True)
    assert said.returncode == 2 and said.stderr.startswith("lamina: ")


def test_what_a_call_lacks_is_said(digits, x):
    pixels = np.zeros((1, 32, 32, 3), np.uint8)
    with pytest.raises(lamina.Error, match='^run: the graph has no input "inptu"; nearest: "input"$'):
        digits({"inptu": x}, device="cpu")
    without = lamina.Model(digits.graph)
    for photos in (pixels, pixels.transpose(0, 3, 1, 2)):
        with pytest.raises(lamina.Error, match=r"expected f32 \['N', 3, 32, 32\], got u8 .* set model.preprocess"):
            without(photos, device="cpu")
    graph = lamina.Graph()
    graph.output(graph.add("sum", "Add", (graph.input("a", ("N", 3)), graph.input("b", ("N", 3)))))
    plan, one = graph.compile(device="cpu"), np.ones((1, 3), np.float32)
    with pytest.raises(TypeError, match="several inputs are a tuple"):
        plan(one, one)
    with pytest.raises(lamina.Error, match="expected 2 inputs, got 1"):
        plan(one, out=one)
    assert (plan((one, one)) == 2).all()


def test_preprocess_takes_names():
    pixels = lamina.read_image(SEVEN)
    for see in (lamina.preprocess, lamina.resize_and_crop):
        np.testing.assert_array_equal(see(pixels, "imagenet"), see(pixels, lamina.torchvision_imagenet()))
        with pytest.raises(lamina.Error, match="imagenet"):
            see(pixels, "imagenett")
        with pytest.raises(TypeError, match="settings: expected a lamina.Preprocess or a name of one, got"):
            see(pixels, None)
