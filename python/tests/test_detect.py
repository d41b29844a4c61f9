"""Detectors whose answer is known: tests/golden/make_golden_detect.py."""

import copy
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import lamina

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/detect"


@pytest.fixture
def photo() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (90, 70, 3), dtype=np.uint8)


def test_boxes_are_arrays(photo, tmp_path):
    detector = lamina.Detector(GOLDEN / "raw.onnx", "cpu")
    assert (detector.task, detector.names, detector.input_shape) == ("detect", ["cat", "it's", "dog"], (1, 3, 64, 96))
    found = detector(photo)
    assert found.boxes.shape == (len(found.scores), 4) and len(found.scores) > 3
    assert found.boxes.dtype == found.scores.dtype == np.float32 and found.classes.dtype == np.int32
    assert (np.diff(found.scores) <= 0).all() and found.points is found.masks is found.turned is None
    assert found.names == [detector.names[i] for i in found.classes]
    dogs = detector(photo, classes=["dog"])
    assert set(dogs.names) == {"dog"} and len(dogs.scores) == found.names.count("dog")
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(photo).save(tmp_path / "photo.png")
    for other in (tmp_path / "photo.png", pillow.fromarray(photo), (tmp_path / "photo.png").read_bytes(),
                  io.BytesIO((tmp_path / "photo.png").read_bytes())):
        np.testing.assert_array_equal(detector(other).boxes, found.boxes)


@pytest.mark.parametrize("name", ["raw", "segment", "pose", "obb"])
def test_an_answer_is_a_sequence_of_things(photo, name):
    detector = lamina.Detector(GOLDEN / f"{name}.onnx", "cpu")
    found = detector(photo)
    assert len(found) == len(list(found)) == len(tuple(reversed(found))) == len(found.scores) > 1 and found
    assert len(detector(photo, 1.0)) == 0 and not detector(photo, 1.0) and "nothing" in repr(detector(photo, 1.0))
    for i, thing in enumerate(found):
        assert (thing.score, thing.label, thing.name) == (found.scores[i], found.classes[i], found.names[i])
        assert np.array_equal(thing.box, found.boxes[i])
        for one, all_of in ((thing.points, found.points), (thing.mask, found.masks), (thing.turned, found.turned)):
            assert one is all_of is None or np.array_equal(one, all_of[i])
    assert found[-1].score == found.scores[-1] and [each.name for each in found[:2]] == found[:2].names == found.names[:2]
    with pytest.raises(IndexError):
        found[len(found)]
    for other in (copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert len(other) == len(found) and np.array_equal(other.boxes, found.boxes)


def test_a_detector_is_of_a_model_too_and_can_be_copied(photo, tmp_path):
    """With what the exporter noted, which a file of the model keeps."""
    expected = lamina.Detector(GOLDEN / "pose.onnx", device="cpu")
    model = lamina.load(GOLDEN / "pose.onnx")
    assert model.metadata["task"] == "pose"
    model.save(tmp_path / "pose.safetensors")
    for same in (lamina.Detector(model, "cpu"), lamina.Detector(tmp_path / "pose.safetensors", "cpu"), pickle.loads(pickle.dumps(expected)),
                 copy.copy(expected), pickle.loads(pickle.dumps(lamina.Detector(model, "cpu", labels=expected.names)))):
        assert (same.task, same.names, same.input_shape) == (expected.task, expected.names, expected.input_shape)
        np.testing.assert_array_equal(same(photo).points, expected(photo).points)
    assert lamina.Detector(model, "cpu", labels=["x"]).names[0] == "x" and model.labels != ["x"]
    with pytest.raises(lamina.Error, match="^model: "):
        lamina.Detector(lamina.load(ROOT / "weights/digits.safetensors"), "cpu")


def test_boxes_scores_and_classes_may_be_three_outputs(photo):
    detector = lamina.Detector(GOLDEN / "apart.onnx", "cpu")
    assert (detector.task, detector.input_shape, len(detector.names)) == ("detect", (1, 3, 64, 96), 91)
    found, same = detector(photo), lamina.Detector(GOLDEN / "end2end.onnx", "cpu")(photo)
    np.testing.assert_array_equal(found.boxes, same.boxes)
    assert found.names == [detector.names[i] for i in same.classes] and "person" in found.names


def test_a_detector_can_be_stopped(photo):
    detector, stop = lamina.Detector(GOLDEN / "raw.onnx", "cpu"), lamina.Stop()
    assert len(detector(photo, stop=stop, time=60)) == len(detector(photo))
    with pytest.raises(lamina.Stopped, match="^detect: stopped, it took longer than 0 s$"):
        detector(photo, time=0)
    stop.request()
    for photos in (photo, [photo]):
        with pytest.raises(lamina.Stopped):
            detector(photos, stop=stop)


def test_several_photographs_and_folders(photo, tmp_path):
    """What cannot be read is a row with an error; what is asked wrongly is raised."""
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(photo).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"none")
    detector = lamina.Detector(GOLDEN / "raw.onnx", "cpu")
    found = detector(photo)
    for several in (tmp_path, [tmp_path / "a.png", b"none"], iter([photo, tmp_path / "b.png"])):
        good, bad = detector(several)
        np.testing.assert_array_equal(good.found.boxes, found.boxes)
        assert good.error is None and bad.found is None and bad.error
    assert [len(row.found.boxes) for row in detector(np.stack([photo, photo]))] == [len(found.boxes)] * 2
    with pytest.raises(lamina.Error, match="confidence from 0 to 1"):
        detector([photo], 2)


def test_masks_points_and_turned_boxes(photo):
    found = lamina.Detector(GOLDEN / "segment.onnx", "cpu")(photo)
    assert found.masks.shape == (len(found.scores), 90, 70) and found.masks.max() == 1
    x1, y1, x2, y2 = np.ceil(found.boxes[0]).astype(int)
    inside = np.zeros((90, 70), bool)
    inside[y1:y2, x1:x2] = True
    assert not found.masks[0][~inside].any()
    assert lamina.Detector(GOLDEN / "pose.onnx", "cpu")(photo).points.shape[1:] == (5, 3)
    assert lamina.Detector(GOLDEN / "obb.onnx", "cpu")(photo).turned.shape[1:] == (5,)
    none = lamina.Detector(GOLDEN / "raw.onnx", "cpu")(photo, confidence=1)
    assert none.boxes.shape == (0, 4) and none.names == []


def test_what_is_wrong_is_said(photo):
    with pytest.raises(lamina.Error, match="confidence from 0 to 1"):
        lamina.Detector(GOLDEN / "raw.onnx", "cpu")(photo, 2)
    with pytest.raises(TypeError, match="several photographs, got int"):
        lamina.Detector(GOLDEN / "raw.onnx", "cpu")(3)
    with pytest.raises(TypeError, match='Detector: there is no option "devices"; nearest: "device"'):
        lamina.Detector(GOLDEN / "raw.onnx", devices="cpu")
    with pytest.raises(TypeError, match='Detector: there is no option "conf"; nearest: "confidence"'):
        lamina.Detector(GOLDEN / "raw.onnx", "cpu")(photo, conf=0.1)
    with pytest.raises(lamina.Error, match="""class of the model, got 'dogs'; nearest: "dog\""""):
        lamina.Detector(GOLDEN / "raw.onnx", "cpu")(photo, classes=["dogs"])
    unnamed = lamina.Detector(GOLDEN / "bare.onnx", "cpu")
    assert unnamed.names == ["class 0", "class 1", "class 2"] and len(unnamed(photo, classes=np.int64(2))) == len(unnamed(photo, classes=["Class 2"]))
    for number in (1000, -1):
        with pytest.raises(lamina.Error, match=f"classes: the model's are 0 to 2, got {number}"):
            unnamed(photo, classes=[number])
    with pytest.raises(lamina.Error, match="classes: expected numbers of 0 and more, got -1"):
        lamina.Detector(lamina.Model(lamina.load(GOLDEN / "end2end.onnx").graph), "cpu")(photo, classes=[-1])
    with pytest.raises(lamina.Error, match="missing.onnx"):
        lamina.Detector(GOLDEN / "missing.onnx")
