"""lamina.quantize: what the command does, from Python."""

import lamina
import numpy as np
import onnx_writer as onnx
import pytest


def test_photographs_make_a_model_in_eight_bits(digits, photos, tmp_path):
    told = []
    found = lamina.quantize(digits, photos, tmp_path / "digits8.safetensors", progress=lambda *of: told.append(of), threads=1)
    assert len(found.layers) == 8 and all(layer.quantized and layer.error > 0 and not layer.why for layer in found.layers)
    assert 0 < found.error < 0.05 and found.agreement == 1 and found.held_back == 2 and found.unread == []
    assert told[0] == (1, told[-1][1]) and told[-1][0] > 8
    assert found.model.labels == digits.labels and found.model.preprocess == digits.preprocess
    assert "u8 nhwc" in found.model.plan_summary(device="cpu")
    assert found.model.classify(photos / "7.png")[0][0] == "seven"
    read = lamina.load(tmp_path / "digits8.safetensors")
    inputs = np.concatenate([lamina.preprocess(photo, digits.preprocess) for photo in sorted(photos.glob("*.png"))])
    assert np.array_equal(read(inputs), found.model(inputs))
    # Inputs say the same as their photographs, and a path as the model in it.
    digits.save(tmp_path / "digits.safetensors")
    again = lamina.quantize(tmp_path / "digits.safetensors", inputs, tmp_path / "digits8.onnx", threads=1)
    assert (again.layers, again.error) == (found.layers, found.error)
    assert np.array_equal(lamina.load(tmp_path / "digits8.onnx")(inputs), read(inputs))


def test_layers_stay_in_floats(digits, photos):
    plain = lamina.quantize(digits, photos, max_error=0.003, calibration="percentile", equalize=False, correct_bias=False)
    assert plain.error <= 0.003 and plain.equalized == 0
    assert {layer.why for layer in plain.layers if not layer.quantized} == {"its error"} and any(layer.quantized for layer in plain.layers)


def test_a_model_that_is_no_good_is_not_written_unasked(tmp_path):
    """The difference of two large values that are nearly alike: their 256 levels know nothing of it."""
    arrays = {"w": np.float32([1, 1, 1, 1.001, 1.001, 1.001]).reshape(2, 3, 1, 1), "v": np.float32([1, -1]).reshape(1, 2, 1, 1)}
    nodes = [onnx.node("Conv", ["x", "w"], "c"), onnx.node("Relu", ["c"], "r"), onnx.node("Conv", ["r", "v"], "y")]
    file = onnx.write(tmp_path / "difference.onnx", nodes, [("x", "float32", ["N", 3, 32, 32])],
                      [("y", "float32", ["N", 1, 32, 32])], arrays)
    x = np.random.default_rng(0).standard_normal((8, 3, 32, 32)).astype(np.float32)
    out = tmp_path / "eight.safetensors"
    with pytest.raises(lamina.Error, match="off by 3.21 times what they are: nothing was written; max_error .* force=True"):
        lamina.quantize(file, x, out)
    assert not out.exists() and lamina.quantize(file, x).error > 3
    lamina.quantize(file, x, out, force=True)
    assert out.exists()


def test_what_cannot_be_quantised_is_said(digits, photos, tmp_path):
    (tmp_path / "broken.png").write_bytes((photos / "7.png").read_bytes()[:40])
    some = lamina.quantize(digits, [photos / "1.png", tmp_path / "broken.png", (photos / "7.png").read_bytes()])
    assert [photo.name for photo, why in some.unread if "broken.png" in why] == ["broken.png"] and some.held_back == 1
    with pytest.raises(lamina.Error, match="no photograph could be read: .*broken.png"):
        lamina.quantize(digits, tmp_path / "broken.png")
    with pytest.raises(lamina.Error, match="expected samples to calibrate with"):
        lamina.quantize(digits, [])
    with pytest.raises(lamina.Error, match="expected minmax or percentile"):
        lamina.quantize(digits, photos, calibration="entropy")
    with pytest.raises(lamina.Error, match="quantised already"):
        lamina.quantize(some.model, photos)
    with pytest.raises(lamina.Error, match="set model.preprocess"):
        lamina.quantize(lamina.Model(digits.graph), photos)
    with pytest.raises(ZeroDivisionError):
        lamina.quantize(digits, photos, progress=lambda done, most: 1 / 0)


def test_a_network_of_a_fixed_batch_gets_whole_ones(photos):
    graph = lamina.Graph()
    weight = np.random.default_rng(1).standard_normal((4, 3, 3, 3), np.float32)
    graph.output(graph.add("conv", "conv2d", graph.input("x", (4, 3, 32, 32)), weight=weight, bias=np.zeros(4, np.float32)))
    found = lamina.quantize(lamina.Model(graph, lamina.load(photos.parent / "digits.safetensors").preprocess), photos)
    assert found.held_back == 1 and found.layers[0].quantized  # ten photographs: three batches, the last one of two
