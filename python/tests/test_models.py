"""Models, graphs, options and photographs."""

import copy
import io
import pickle

import lamina
import numpy as np
import pytest


def test_classify(digits, photos):
    (best, score), (_, second) = digits.classify(photos / "7.png", top=2)
    assert best == "seven" and score > 0.99 > second


def test_what_a_photograph_is(digits, photos, tmp_path):
    """The same thing wherever one goes: by itself one photograph, in a list or an iterator one of several."""
    path = photos / "7.png"
    content, pixels = path.read_bytes(), lamina.read_image(path)

    class Lender:
        __dlpack__, __dlpack_device__ = pixels.__dlpack__, pixels.__dlpack_device__

    turned = np.ascontiguousarray(pixels[:, :, ::-1])[:, :, ::-1]  # as OpenCV's are; a seven is grey
    expected = digits.classify(path, top=2)
    with path.open("rb") as opened:
        one = [str(path), path, content, bytearray(content), memoryview(content), np.frombuffer(content, np.uint8), opened,
               io.BytesIO(content), pixels, pixels[:, :, 0], turned, Lender()]
        for photo in one:
            assert digits.classify(photo, top=2) == expected, type(photo)
    fresh = [io.BytesIO(content) if hasattr(photo, "read") else photo for photo in one]
    for several in (fresh[:6] + fresh[8:], iter(fresh), np.array([str(path)] * 2), [path]):
        assert all(row.classes == expected for row in digits.classify(several, top=2))
    for see in (lamina.read_image, lambda photo: lamina.preprocess(photo, digits.preprocess),
                lambda photo: lamina.resize_and_crop(photo, digits.preprocess)):
        assert all(np.array_equal(see(io.BytesIO(content) if hasattr(photo, "read") else photo), see(path)) for photo in one)
    for wrong, words in ((pixels[..., :2], r"expected u8 \[height, width\], .*, got u8 \[8, 8, 2\]"), (pixels.astype("f4"), r"got f32 \[8, 8, 3\]"),
                         (io.BytesIO(), "the file is empty")):
        with pytest.raises(lamina.Error, match=words):
            digits.classify(wrong)
    for wrong, words in ((None, "got NoneType"), (3, "got int"), ([3], "an open file.*, got int"), ({path: 1}, "got dict"),
                         (io.StringIO("7"), 'opened as "rb", got str'), ([[1, 2]], "got list")):
        with pytest.raises(TypeError, match=words):
            digits.classify(wrong)


def test_classify_a_folder(digits, photos, tmp_path, capsys):
    for source in photos.glob("*.png"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "notes.txt").write_text("not a photograph")
    rows = digits.classify(tmp_path, top=1, batch=4, progress=True)
    assert [row.photo for row in rows] == sorted(str(p) for p in tmp_path.glob("*.png"))
    errors = [row for row in rows if row.error]
    assert len(errors) == 1 and "broken.png" in errors[0].error and errors[0].classes == []
    assert [row.classes[0][0] for row in rows if not row.error] == digits.labels
    captured = capsys.readouterr()
    assert "11" in captured.out + captured.err
    # Whatever runs together, the bits are the same.
    assert rows[0].classes == digits.classify([rows[0].photo], top=1)[0].classes


def test_errors_name_the_place(digits, tmp_path):
    with pytest.raises(lamina.Error, match="nowhere.png"):
        digits.classify(tmp_path / "nowhere.png")
    with pytest.raises(lamina.Error, match="no photographs in this folder$"):
        digits.classify(tmp_path)
    (tmp_path / "below").mkdir()
    with pytest.raises(lamina.Error, match=r'no photographs in this folder; .*rglob\("\*.jpg"\)'):
        digits.classify(tmp_path)
    with pytest.raises(lamina.Error, match="nowhere.onnx: there is no such file"):
        lamina.load(tmp_path / "nowhere.onnx")
    (tmp_path / "x.safetensors").write_bytes(b"\0" * 40)
    with pytest.raises(lamina.Error, match="x.safetensors"):
        lamina.load(tmp_path / "x.safetensors")


def test_options(digits):
    with pytest.raises(TypeError, match='no option "batches"; nearest: "batch"'):
        digits.compile(batches=3)
    with pytest.raises(TypeError, match="batch: expected an integer, got 1.5"):
        digits.compile(batch=1.5)
    with pytest.raises(TypeError, match="batch: expected an integer, got True"):
        digits.compile(batch=True)
    assert digits.compile(device="cpu", batch=np.int64(2)).batch == 2
    with pytest.raises(TypeError, match="fuse: expected a bool, got 1"):
        digits.compile(fuse=1)
    with pytest.raises(lamina.Error, match="precision"):
        digits.compile(precision="fp8")
    with pytest.raises(lamina.Error, match='expected f32, f16 or bf16, .*; got "f8"'):
        digits.compile(input_format="f8")
    assert "batch-invariant" in digits.plan_summary(device="cpu", batch_invariant=True)
    plan = digits.compile(device="cpu", batch=3, outputs=["classifier.4", "classifier.6"], keep_all=True)
    assert plan.output_names == ("classifier.4", "classifier.6")
    hidden, scores = plan(np.ones((3, 3, 32, 32), np.float32))
    assert np.array_equal(plan.activation("classifier.4"), hidden) and scores.shape == (3, 10)
    memory = digits.plan_memory(device="cpu", batch=3)
    assert memory.total == digits.compile(device="cpu", batch=3).memory.total > 0


def test_reprs_show_shapes(digits, plan):
    assert repr(plan) == "<lamina.Plan input f32 [2, 3, 32, 32] -> classifier.6 f32 [2, 10] on cpu, fp32>"
    assert repr(digits).startswith("<lamina.Model input [N, 3, 32, 32] -> classifier.6 [N, 10]")
    assert repr(plan.memory).startswith("PlanMemory(activations=")
    assert "classifier.6" in plan.summary() and "conv2d" in digits.summary()
    assert plan.input_names == ("input",) and plan.input_shapes == ((2, 3, 32, 32),)


def test_graphs_in_python(tmp_path):
    values = np.random.default_rng(1)
    weight = values.standard_normal((4, 3, 3, 3), np.float32)
    graph = lamina.Graph()
    x = graph.input("image", ("N", 3, 8, 8))
    x = graph.add("conv", "conv2d", x, weight=weight.shape, bias=(4,), padding=1)
    y = graph.add("act", "HardSwish", x)
    graph.output(graph.add("sum", "add", [x, y]))
    with pytest.raises(lamina.Error, match="conv: conv2d: the weight was never set"):
        graph.compile(device="cpu")
    assert graph.load({"conv.weight": weight, "conv.bias": np.zeros(4, np.float32)}) == []
    assert np.array_equal(graph.state_dict()["conv.weight"], weight)
    image = values.standard_normal((2, 3, 8, 8), np.float32)
    result = graph.compile(device="cpu", batch=2)(image)
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    conv = np.einsum("ncyxhw,fchw->nfyx", windows, weight, dtype=np.float64)
    np.testing.assert_allclose(result, conv + conv * np.clip(conv / 6 + 0.5, 0, 1), rtol=1e-4, atol=1e-4)
    lamina.Model(graph, lamina.Preprocess(8, 8), ["a"]).save(tmp_path / "model.safetensors")
    again = lamina.load(tmp_path / "model.safetensors")
    assert np.array_equal(again.compile(device="cpu", batch=2)(image), result)
    assert again.preprocess == lamina.Preprocess(8, 8) and again.labels == ["a"]


def test_labels_and_preprocess_may_be_set(photos, tmp_path):
    graph = lamina.Graph()
    x = graph.add("flat", "flatten", graph.input("x", ("N", 3, 1, 1)))
    weight = np.zeros((1000, 3), np.float32)
    weight[281], weight[1] = 1, -1
    graph.output(graph.add("scores", "linear", x, weight=weight))
    lamina.Model(graph).save(tmp_path / "model.safetensors")
    model = lamina.load(tmp_path / "model.safetensors")
    with pytest.raises(lamina.Error, match="set model.preprocess"):
        model.classify(photos / "7.png")
    model.preprocess = lamina.Preprocess(1, 1)
    assert model.classify(photos / "7.png", top=1)[0][0] == "class 281"
    model.labels = lamina.imagenet_labels()
    assert model.classify(photos / "7.png", top=1)[0][0] == "tabby"
    model.preprocess = lamina.Preprocess(1, 1, std=(-1, -1, -1))
    assert model.classify(photos / "7.png", top=1)[0][0] == "goldfish"


def test_preprocess_may_letterbox():
    settings = lamina.letterbox(8)
    assert (settings.aspect, settings.fill, settings.rounding, settings.placement) == ("letterbox", (114, 114, 114), "nearest", "centre")
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert settings == lamina.Preprocess(8, 8, aspect="letterbox", fill=(114, 114, 114), rounding="nearest", antialias=False)
    seen = lamina.resize_and_crop(np.full((8, 16, 3), 200, np.uint8), settings)
    assert [row[0, 0] for row in seen] == [114, 114, 200, 200, 200, 200, 114, 114]
    with pytest.raises(lamina.Error, match="aspect: expected kept, ignored or letterbox"):
        lamina.Preprocess(8, 8, aspect="squeezed")


def test_preprocess_says_what_is_wrong_with_it():
    assert lamina.Preprocess(mean=0.5, std=2, fill=9) == lamina.Preprocess(mean=(0.5,) * 3, std=(2,) * 3, fill=(9,) * 3)
    for settings, said in (({"resize": (256, 256)}, r"resize: expected a number of pixels, got \(256, 256\)"),
                           ({"mean": (1, 2)}, "mean: expected a number or three, red, green and blue"),
                           ({"fill": 256}, "fill: expected a number from 0 to 255 or three")):
        with pytest.raises(TypeError, match=f"^{said}"):
            lamina.Preprocess(**settings)
    for settings, said in (({"crop": -1}, "expected crop of 1 to 10000"), ({"std": (1, 0, 1)}, "expected a finite std other than 0")):
        with pytest.raises(lamina.Error, match=said):
            lamina.Preprocess(**settings)
    settings = lamina.caffe_imagenet()
    assert settings.replace() == settings != settings.replace(crop=200) == lamina.Preprocess(
        settings.resize, 200, settings.mean, settings.std, settings.divisor, settings.order, settings.aspect)


def test_preprocess_goes_to_other_processes():
    settings = lamina.Preprocess(40, 32, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 1.0, "bgr", "ignored")
    assert pickle.loads(pickle.dumps(settings)) == copy.deepcopy(settings) == settings


def test_graph_mistakes():
    graph = lamina.Graph()
    x = graph.input("x", ("N", 3, 8, 8))
    for op, fields, words in [("conv3", {}, 'unknown op "conv3"; nearest: .*"conv2d"'), ("conv2d", {}, "weight"),
                              ("Hardswish", {}, 'unknown op "Hardswish"; nearest: .*"HardSwish"'),
                              ("relu", {"slope": 1}, "slope"), ("conv2d", {"weight": (4, 5, 3, 3)}, "channels")]:
        with pytest.raises(lamina.Error, match=f"node: .*{words}"):
            graph.add("node", op, x, **fields)
    with pytest.raises(lamina.Error, match="expected numbers, \"N\" or"):
        graph.input("y", ("M", 3))
    with pytest.raises(lamina.Error, match="dtype"):
        graph.input("y", (3,), "float32")


def test_arch_mistakes(digits):
    assert "resnet18" in lamina.arch_names()
    with pytest.raises(lamina.Error, match="resnet51"):
        lamina.arch("resnet51", {})
    with pytest.raises(lamina.Error, match="fc"):
        lamina.arch("resnet18", {"conv1.weight": np.zeros((64, 3, 7, 7), np.float32)})


def test_which_weights(tmp_path):
    graph = lamina.Graph()
    x = graph.add("conv", "conv2d", graph.input("image", ("N", 1, 2, 2)), weight=(1, 1, 1, 1))
    graph.output(x)
    arrays = {"net.conv.weight": np.full((1, 1, 1, 1), 3, np.float32)}
    np.savez(tmp_path / "w.npz", **arrays)
    with pytest.raises(lamina.Error, match='begin with "net.".*; strip_prefix leaves it out'):
        graph.load(tmp_path / "w.npz")
    assert graph.load(tmp_path / "w.npz", strip_prefix="net.") == []
    assert np.array_equal(graph.state_dict()["conv.weight"], arrays["net.conv.weight"])
    with pytest.raises(lamina.Error, match='PyTorch checkpoint, for its key "ema"'):
        graph.load(tmp_path / "w.npz", key="ema")
    with pytest.raises(lamina.Error, match="weights are a dict"):
        graph.load(arrays, strip_prefix="net.")
    with pytest.raises(lamina.Error, match="PyTorch checkpoint"):
        lamina.arch("resnet18", tmp_path / "w.npz", key="ema")


def test_preprocess_is_torchvisions(photos):
    """The golden pixels are torchvision's: tests/golden says how they were made."""
    settings = lamina.torchvision_imagenet()
    photo = photos.parents[1] / "docs/images/chelsea.png"
    image = lamina.preprocess(photo, settings)
    assert image.shape == (1, 3, 224, 224) and image.dtype == np.float32
    pixels = lamina.resize_and_crop(photo, settings)
    mean, std = (np.array(v, np.float32) for v in (settings.mean, settings.std))
    expected = (pixels.astype(np.float32) / np.float32(255) - mean) / std
    assert np.array_equal(image[0], expected.transpose(2, 0, 1))
    out = np.empty_like(pixels)
    assert lamina.resize_and_crop(photo, settings, out=out) is out and np.array_equal(out, pixels)
    with pytest.raises(lamina.Error, match="out: expected u8"):
        lamina.resize_and_crop(photo, settings, out=out[:8])


def test_torchvision(photos):
    transforms = pytest.importorskip("torchvision.transforms")
    image = pytest.importorskip("PIL.Image")
    photo = photos.parents[1] / "docs/images/chelsea.png"
    settings = lamina.torchvision_imagenet()
    steps = transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    expected = steps(image.open(photo).convert("RGB")).numpy()
    assert np.array_equal(lamina.preprocess(photo, settings)[0], expected)


def test_plans_of_other_devices(digits):
    there = lamina.describe("cpu")
    assert there.device == "cpu" and "DeviceDescription of cpu" in repr(there)
    there.instructions, there.avx512_bf16, there.amx_bf16 = "scalar", False, False
    summary = digits.plan_summary(batch=3, description=there)
    assert "AVX" not in summary and "batch 3" in summary
    assert digits.compile(batch=3, description=there).summary() == summary
    assert digits.plan_summary(device="cpu", threads=1) == digits.compile(device="cpu", threads=1).summary()
    gpu = lamina.DeviceDescription("cuda:3")
    gpu.architecture, gpu.multiprocessors, gpu.clusters = 80, 108, [0, 108, 0, 0, 0, 0, 0, 0, 0]
    gpu.shared_bytes, gpu.multiprocessor_shared_bytes, gpu.reserved_shared_bytes = 166912, 167936, 1024  # of an A100
    assert repr(gpu) == "<lamina.DeviceDescription of cuda:3, 8.0, 108 multiprocessors>"
    if "no CUDA" not in lamina.cuda_unavailable_reason():
        assert digits.plan_summary(device="cuda:3", description=gpu) == digits.plan_summary(description=gpu)
    else:  # how a package gets it, and not how a build does
        assert "`scripts/build_wheel.sh --cuda`" in lamina.cuda_unavailable_reason()
        with pytest.raises(lamina.Error, match="cannot be used: .*scripts/build_wheel.sh --cuda"):
            digits.compile(device="cuda")
    with pytest.raises(lamina.Error, match="expected a description of cpu, got one of cuda:3"):
        digits.plan_summary(device="cpu", description=gpu)
    with pytest.raises(TypeError, match="expected a DeviceDescription"):
        digits.plan_summary(description="cpu")
    with pytest.raises(lamina.Error, match="expected avx512, avx2, neon or scalar, got \"mmx\""):
        there.instructions = "mmx"
    with pytest.raises(lamina.Error, match="expected cpu, cuda or cuda:INDEX"):
        lamina.DeviceDescription("tpu")


def test_profile(plan, x):
    steps = plan.profile(x, runs=2)
    assert [step["name"] for step in steps][:2] == ["features.0", "features.2"]
    assert all(step["milliseconds"] > 0 and step["bytes"] > 0 and step["kernel"] for step in steps)
    assert steps[0]["fused"] == "features.1" and steps[0]["flops"] > 1e6
    with pytest.raises(lamina.Error, match="expected 1 run or more, got 0"):
        plan.profile(x, runs=0)
    with pytest.raises(lamina.Error, match="got f64"):
        plan.profile(x.astype("f8"))


def test_networks_become_onnx(digits, tmp_path, x):
    digits.save(tmp_path / "digits.onnx")
    again = lamina.load(tmp_path / "digits.onnx")
    np.testing.assert_allclose(again(x, device="cpu"), digits(x, device="cpu"), rtol=1e-5, atol=1e-5)
