"""Classifiers of every ordinary form: what they take, what their numbers are, what exporters note of them; which way up
photographs are seen, and on what."""

import json
import subprocess
import sys
from pathlib import Path

import lamina
import numpy as np
import onnx_writer as onnx
import pytest

COLOUR = np.array([200, 100, 50], np.uint8)
PHOTO = np.broadcast_to(COLOUR, (24, 40, 3))
PLAIN = {"resize": 8, "crop": 8}
# The input's shape and type, the pixels' share of it, and how photographs become it.
INPUTS = {
    "channels first": (["n", 3, 8, 8], "float32", PLAIN),
    "channels last": (["n", 8, 8, 3], "float32", PLAIN),
    "of one image": ([1, 8, 8, 3], "float32", PLAIN),
    "grey": (["n", 1, 8, 8], "float32", PLAIN),
    "grey, channels last": (["n", 8, 8, 1], "float32", PLAIN),
    "not square": (["n", 3, 4, 20], "float32", {"resize": 4, "crop": 4, "crop_width": 20}),
    "not square, channels last": (["n", 4, 20, 3], "float32", {"resize": 4, "crop": 4, "crop_width": 20, "aspect": "ignored"}),
    "open height and width": (["n", 3, "h", "w"], "float32", PLAIN),
    "open, channels last": (["n", "h", "w", 3], "float32", PLAIN),
    "bytes": (["n", 8, 8, 3], "uint8", {**PLAIN, "divisor": 1}),
    "halves": (["n", 3, 8, 8], "float16", PLAIN),
}
# Ops behind the numbers, the output's extents, and what is made of them.
LOGITS = lambda y: np.exp(y) / np.exp(y).sum()  # noqa: E731
SIGMOID = lambda y: 1 / (1 + np.exp(-y))  # noqa: E731
OUTPUTS = {
    "logits": ([], 3, LOGITS),
    "maps of one pixel": ([("Reshape", "maps")], 3, LOGITS),
    "softmax": ([("Softmax",)], 3, LOGITS),
    "sigmoids": ([("Sigmoid",)], 3, SIGMOID),
    "one sigmoid": ([("Sigmoid",)], 1, lambda y: np.array([1 - SIGMOID(y[0]), SIGMOID(y[0])])),
    "one number": ([], 1, lambda y: y),
}


def written(path, shape, dtype, ends, classes, **of_model):
    """Means of the channels, times a matrix, and what `ends` say. Returns the matrix."""
    last = shape[1] not in (1, 3)
    channels = shape[3 if last else 1]
    weights = np.random.default_rng(channels).uniform(-2, 2, (channels, classes)).astype(np.float32)
    nodes, value = [], "x"

    def then(op, *inputs, **attributes):
        nonlocal value
        nodes.append(onnx.node(op, [value, *inputs], f"v{len(nodes)}", **attributes))
        value = f"v{len(nodes) - 1}"

    if dtype != "float32":
        then("Cast", to=1)
    if last:
        then("Transpose", perm=[0, 3, 1, 2])
    then("GlobalAveragePool")
    then("Flatten", axis=1)
    then("MatMul", "w")
    for op, *inputs in ends:
        then(op, *inputs)
    nodes.append(onnx.node("Identity", [value], "y"))
    out = [shape[0], classes, *([1, 1] if ends and ends[0][0] == "Reshape" else [])]
    onnx.write(path, nodes, [("x", dtype, shape)], [("y", "float32", out)],
               {"w": weights, "maps": np.array([-1, classes, 1, 1])}, **of_model)
    return weights


def expected(shape, weights, divisor=255):
    grey = 1 in (shape[1], shape[3])
    pixel = np.array([COLOUR @ [0.299, 0.587, 0.114]]) if grey else COLOUR
    return pixel / divisor @ weights


@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("end", ["logits", "maps of one pixel"])
def test_inputs(tmp_path, form, end):
    shape, dtype, settings = INPUTS[form]
    ends, classes, made = OUTPUTS[end]
    weights = written(tmp_path / "net.onnx", shape, dtype, ends, classes)
    model = lamina.load(tmp_path / "net.onnx")
    model.preprocess = lamina.Preprocess(**settings)
    wanted = made(expected(shape, weights, settings.get("divisor", 255)))
    for found in (model.classify(PHOTO, threads=1), *(each.classes for each in model.classify([PHOTO, PHOTO], threads=1))):
        assert [name for name, _ in found] == [f"class {i}" for i in np.argsort(-wanted)]
        np.testing.assert_allclose([score for _, score in found], np.sort(wanted)[::-1], atol=2e-3)


@pytest.mark.parametrize("end", OUTPUTS)
def test_outputs(tmp_path, end):
    ends, classes, made = OUTPUTS[end]
    weights = written(tmp_path / "net.onnx", ["n", 3, 8, 8], "float32", ends, classes)
    model = lamina.load(tmp_path / "net.onnx")
    model.preprocess = lamina.Preprocess(**PLAIN)
    wanted = made(expected([1, 3, 8, 8], weights))
    found = model.classify(PHOTO, threads=1)
    np.testing.assert_allclose([score for _, score in found], np.sort(wanted)[::-1], atol=1e-4)


def metadata(**notes):
    return {"of_model": [(14, onnx.field(1, key) + onnx.field(2, text)) for key, text in notes.items()]}


def pretrained(**settings):
    return {"config.json": {"architecture": "net", "pretrained_cfg": {"input_size": [3, 8, 8], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.1],
                                                                        "crop_pct": 0.8, "interpolation": "bilinear", **settings}}}


def processor(**settings):
    return {"preprocessor_config.json": {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3, "do_rescale": True,
                                           "rescale_factor": 1 / 255, "resample": 2, **settings}}


USUAL = {"resize": 8, "crop": 8, "mean": (0, 0, 0), "std": (1, 1, 1)}
HALVES = {**USUAL, "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
# Of the model's file; of files beside it; what is known then: a preprocessing, or none, and names.
NOTES = {
    "nothing": ({}, {}, None, []),
    "Ultralytics": (metadata(task="classify", names="{0: 'a', 1: \"b's\", 2: 'c'}", imgsz="[8, 8]"), {}, USUAL, ["a", "b's", "c"]),
    "mean and deviation": (metadata(mean="[0.5]", std="0.25", labels='["a", "b", "c"]'), {}, HALVES, ["a", "b", "c"]),
    "levels to 255": (metadata(mean="[127.5, 127.5, 127.5]", std="[63.75]"), {},
                      {**USUAL, "mean": (127.5,) * 3, "std": (63.75,) * 3, "divisor": 1}, []),
    "a scale": (metadata(scale="0.5", mean="3"), {}, {**USUAL, "mean": (3, 3, 3), "divisor": 2}, []),
    "timm": ({}, pretrained(), {"resize": 10, "crop": 8, "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.1)}, []),
    "timm, squashed": ({}, pretrained(crop_mode="squash", crop_pct=1.0), {"resize": 8, "crop": 8, "aspect": "ignored"}, []),
    "timm's names": ({}, {"config.json": {"label_names": ["n1", "n2", "n3"], "label_descriptions": {"n1": "a"}}}, None, ["a", "n2", "n3"]),
    "timm, another size": ({}, pretrained(input_size=[3, 16, 16]), None, []),
    "ViT": ({}, {**processor(size={"height": 8, "width": 8}), "config.json": {"id2label": {"0": "a", "2": "c", "1": "b"}}},
            {**HALVES, "aspect": "ignored"}, ["a", "b", "c"]),
    "CLIP": ({}, processor(do_center_crop=True, size={"shortest_edge": 10}, crop_size={"height": 8, "width": 8}),
             {**HALVES, "resize": 10, "aspect": "kept"}, []),
    "ConvNeXt": ({}, processor(size={"shortest_edge": 8}, crop_pct=0.8), {**HALVES, "resize": 10, "aspect": "kept"}, []),
    "levels as they are": ({}, processor(size=8, do_rescale=False, do_normalize=False), {**USUAL, "divisor": 1}, []),
    "levels from -1": ({}, processor(size=8, rescale_factor=1 / 127.5, rescale_offset=True),
                       {"divisor": 127.5, "mean": (1.5,) * 3, "std": (0.25,) * 3}, []),
    "blue first": ({}, processor(size=8, do_flip_channel_order=True), {"order": "bgr"}, []),
    "names of nothing": ({}, {"config.json": {"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}}}, None, []),
    "names of another model": ({}, {"config.json": {"id2label": {"0": "a"}}}, None, []),
    "no JSON": (metadata(names="{0: 'a'", mean="?"), {"config.json": "{", "preprocessor_config.json": [1]}, None, []),
    "sizes that are none": (metadata(task="classify", imgsz="[1e30, -5]"), {}, USUAL, []),
    "sizes beside that are none": ({}, pretrained(crop_pct=1e-30), {"resize": 8, "crop": 8}, []),
    "odd JSON": ({}, {"config.json": {"id2label": 3, "pretrained_cfg": {"mean": "x", "input_size": ["a", "b", "c"]}}}, None, []),
}


@pytest.mark.parametrize("note", NOTES)
def test_notes_of_exporters(tmp_path, note):
    of_model, beside, preprocess, labels = NOTES[note]
    (tmp_path / "onnx").mkdir()
    written(tmp_path / "onnx/net.onnx", ["n", 3, 8, 8], "float32", [], 3, **of_model)
    for name, content in beside.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    model = lamina.load(tmp_path / "onnx/net.onnx")
    assert model.labels == labels
    assert (model.preprocess is None) == (preprocess is None)
    for key, value in (preprocess or {}).items():
        assert getattr(model.preprocess, key) == pytest.approx(value), key


def test_a_filter_that_is_another_is_said(tmp_path):
    written(tmp_path / "net.onnx", ["n", 3, "h", "w"], "float32", [], 3)
    (tmp_path / "config.json").write_text(json.dumps(pretrained(interpolation="bicubic")["config.json"]))
    model = lamina.load(tmp_path / "net.onnx")
    assert "config.json asks for another way of resizing than bilinear" in model.warnings[0]
    assert model.preprocess.crop == 8 and len(model.classify(PHOTO, threads=1)) == 3


@pytest.mark.parametrize("beside, said", [
    (processor(size=8, do_resize=False), "pictures that are not resized"),
    (processor(size=8, do_pad=True), "a border"),
    (pretrained(crop_mode="border"), "another crop_mode"),
    ({**pretrained(), "config.json": {"id2label": {"0": "a"}}}, "passed over, beside the model"),
])
def test_what_of_notes_is_not_heeded_is_said(tmp_path, beside, said):
    written(tmp_path / "net.onnx", ["n", 3, 8, 8], "float32", [], 3)
    for name, content in beside.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert any(said in warning for warning in lamina.load(tmp_path / "net.onnx").warnings)


def test_an_input_of_bytes_takes_levels_only(tmp_path):
    written(tmp_path / "net.onnx", ["n", 8, 8, 3], "uint8", [], 3)
    model = lamina.load(tmp_path / "net.onnx")
    model.preprocess = usual = lamina.torchvision_imagenet().replace(resize=8, crop=8)
    with pytest.raises(lamina.Error, match="takes whole numbers, u8"):
        model.classify(PHOTO)
    model.preprocess = usual.replace(mean=0, std=1, divisor=1)
    assert len(model.classify(PHOTO, threads=1)) == 3


def test_the_command_reads_the_same_notes(tmp_path):
    written(tmp_path / "net.onnx", ["n", 8, 8, 3], "float32", [("Sigmoid",)], 3, **metadata(names="['a', 'b', 'c']", mean="0", std="1"))
    (tmp_path / "photo.ppm").write_bytes(b"P6 40 24 255\n" + PHOTO.tobytes())
    command = Path(sys.executable).with_name("lamina")
    found = subprocess.run([command, "classify", "photo.ppm", "--model", "net.onnx", "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout)[0]["classes"]
    model = lamina.load(tmp_path / "net.onnx")
    assert [(each["name"], pytest.approx(each["probability"], abs=1e-6)) for each in said] == model.classify(PHOTO)


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_photograph_is_upright_wherever_one_goes(digits, photos, tmp_path, suffix):
    image = pytest.importorskip("PIL.Image")
    exif = image.Exif()
    exif[0x112] = 6  # lies on its side
    whole, path = image.open(photos / "7.png").convert("RGB").resize((40, 32)), tmp_path / f"turned.{suffix}"
    whole.save(path, exif=exif)
    stored = np.asarray(image.open(path))
    turned = np.ascontiguousarray(np.rot90(stored, -1))
    for photo in (path, path.read_bytes(), image.open(path)):
        assert np.array_equal(lamina.read_image(photo), turned)
        assert np.array_equal(lamina.read_image(photo, upright=False), stored)
        for see in (lamina.preprocess, lamina.resize_and_crop):
            assert np.array_equal(see(photo, digits.preprocess), see(turned, digits.preprocess))
            assert np.array_equal(see(photo, digits.preprocess, upright=False), see(stored, digits.preprocess))
        assert digits.classify(photo) == digits.classify(turned) != digits.classify(photo, upright=False)


@pytest.mark.parametrize("suffix", ["png", "webp", "gif"])
def test_what_is_transparent_is_seen_on_white(digits, tmp_path, suffix):
    """As the command sees it; as stored, hidden colours show."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((32, 40, 4), np.uint8)
    pixels[8:, :, 3] = 255
    path = tmp_path / f"seen.{suffix}"
    image.fromarray(pixels).save(path, **({"lossless": True, "exact": True} if suffix == "webp" else {}))
    white = np.zeros((32, 40, 3), np.uint8)
    white[:8] = 255
    for photo in (path, path.read_bytes(), image.open(path)):
        assert np.array_equal(lamina.read_image(photo), white)
        assert digits.classify(photo) == digits.classify(white)
    assert not lamina.read_image(path, upright=False).any()


def test_usual_ways_and_models_have_names(tmp_path, monkeypatch):
    written(tmp_path / "net.onnx", ["n", 3, 8, 20], "float32", [], 1000)
    model = lamina.load(tmp_path / "net.onnx")
    with pytest.raises(lamina.Error, match='set model.preprocess: "imagenet" is what most models want'):
        model.classify(PHOTO)
    model.preprocess, model.labels = "imagenet", "imagenet"  # of the model's own size
    assert (model.preprocess.resize, model.preprocess.crop, model.preprocess.width) == (9, 8, 20)
    assert {name for name, _ in model.classify(PHOTO, top=3)} < set(lamina.imagenet_labels())
    model.preprocess = lamina.torchvision_imagenet()
    with pytest.raises(lamina.Error, match=r"got \[N, 3, 8, 20\]; model.preprocess says 224 x 224"):
        model.classify(PHOTO)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(lamina.NoSuchFile, match="classifier: python -m lamina.get_classifier brings it"):
        lamina.load("classifier")
    (tmp_path / "lamina").mkdir()
    model.save(tmp_path / "lamina/classifier.safetensors")
    assert len(lamina.load("classifier").labels) == 1000
