#!/usr/bin/env python3
"""Writes tests/golden/detect: tiny detectors as ONNX files, and what NumPy, OpenCV and torchvision say is found with them.

    pip install numpy onnx opencv-python-headless safetensors torch torchvision
    tests/golden/make_golden_detect.py

A detector's answer is a constant, plus nothing of the photograph, so that what is found depends on the way from its
numbers to the photograph alone. Here that way is written a second time, from the formulas, in float64 where no rounding
decides.
"""

from pathlib import Path

import cv2
import numpy as np
import onnx
import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

HERE = Path(__file__).parent / "detect"
WIDTH, HEIGHT = 96, 64  # of the networks' input
CLASSES = 3
rng = np.random.default_rng(7)


def resized():
    """What OpenCV makes of pictures at sizes around its special cases."""
    tensors = {}
    sizes = [(1, 1, 7, 5), (37, 23, 64, 40), (64, 40, 32, 20), (64, 40, 32, 21), (50, 3, 13, 9), (3, 50, 96, 1),
             (96, 64, 96, 64), (150, 110, 96, 64), (31, 77, 26, 64), (2, 2, 1, 1)]
    for w, h, out_w, out_h in sizes:
        name = f"resize.{w}x{h}.{out_w}x{out_h}"
        picture = rng.integers(0, 256, (h, w, 3), dtype=np.uint8)
        tensors[name + ".in"] = picture
        tensors[name + ".out"] = cv2.resize(picture, (out_w, out_h), interpolation=cv2.INTER_LINEAR)
    return tensors


def letterbox(photo_w, photo_h, w=WIDTH, h=HEIGHT):
    """Inner width and height, left and top: the photograph in the middle, odd pixels of padding after it."""
    gain = min(h / photo_h, w / photo_w)
    inner_w, inner_h = max(round(photo_w * gain), 1), max(round(photo_h * gain), 1)
    return inner_w, inner_h, round((w - inner_w) / 2 - 0.1), round((h - inner_h) / 2 - 0.1)


def write_model(name, outputs, metadata, batch=1, sides=(HEIGHT, WIDTH)):
    """A network that answers with these arrays, whatever it is shown."""
    nodes = [helper.make_node("ReduceSum", ["images"], ["sum"], keepdims=0),
             helper.make_node("Mul", ["sum", "zero"], ["nothing"])]
    constants = [numpy_helper.from_array(np.float32(0), "zero")]
    values = []
    for i, array in enumerate(outputs):
        array = np.repeat(array.astype(np.float32), batch, 0)
        constants.append(numpy_helper.from_array(array, f"answer{i}"))
        nodes.append(helper.make_node("Add", ["nothing", f"answer{i}"], [f"output{i}"]))
        values.append(helper.make_tensor_value_info(f"output{i}", TensorProto.FLOAT, array.shape))
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, *sides])
    model = helper.make_model(helper.make_graph(nodes, name, [images], values, constants), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    helper.set_model_props(model, {k: str(v) for k, v in metadata.items()})
    onnx.save(model, HERE / f"{name}.onnx")


def write_apart(rows):
    """The same of rows x1 y1 x2 y2 score class as torchvision's exports have it: one photograph without a batch, and three
    outputs of as many as were found, here all above 0.2, in an order of their own. Classes are of COCO's 91."""
    constants = [numpy_helper.from_array(np.float32(0), "zero"), numpy_helper.from_array(np.float32(0.2), "least"),
                 numpy_helper.from_array(np.int64([0]), "first"), numpy_helper.from_array(rows[:, :4], "all_boxes"),
                 numpy_helper.from_array(rows[:, 4], "all_scores"), numpy_helper.from_array(np.int64(rows[:, 5]), "all_labels"),
                 numpy_helper.from_array(np.zeros((len(rows), 91), np.float32), "logits")]
    nodes = [helper.make_node("ReduceSum", ["images"], ["sum"], keepdims=0),
             helper.make_node("Mul", ["sum", "zero"], ["nothing"]),
             helper.make_node("Add", ["logits", "nothing"], ["seen"]),
             helper.make_node("Softmax", ["seen"], ["shares"], axis=1),
             helper.make_node("ReduceMax", ["shares"], ["share"], axes=[1], keepdims=0),
             helper.make_node("Mul", ["share", "zero"], ["nothing_each"]),
             helper.make_node("Add", ["all_scores", "nothing_each"], ["score"]),
             helper.make_node("Greater", ["score", "least"], ["sure"]),
             helper.make_node("NonZero", ["sure"], ["places"]),
             helper.make_node("Squeeze", ["places", "first"], ["chosen"])]
    values = []
    for name, source, kind, shape in [("scores", "score", TensorProto.FLOAT, ["n"]), ("labels", "all_labels", TensorProto.INT64, ["n"]),
                                      ("boxes", "all_boxes", TensorProto.FLOAT, ["n", 4])]:
        nodes.append(helper.make_node("Gather", [source, "chosen"], [name]))
        values.append(helper.make_tensor_value_info(name, kind, shape))
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [3, HEIGHT, WIDTH])
    onnx.save(helper.make_model(helper.make_graph(nodes, "apart", [image], values, constants), ir_version=8,
                                opset_imports=[helper.make_opsetid("", 17)]), HERE / "apart.onnx")


def draw_boxes(count):
    """Middle, width and height in pixels of the input; many overlap."""
    middle = rng.uniform((0, 0), (WIDTH, HEIGHT), (count, 2))
    middle[count // 2:] = middle[: count - count // 2] + rng.normal(0, 3, (count - count // 2, 2))
    return np.concatenate([middle, rng.uniform(8, 40, (count, 2))], 1).astype(np.float32)


def best_of(boxes, scores, iou=0.45, across=False):
    """Candidates above 0.25 that stay, in order."""
    score, label = scores.max(1), scores.argmax(1)
    chosen = np.flatnonzero(score > np.float32(0.25))
    offset = 0 if across else torch.from_numpy(label[chosen]).float()[:, None] * 7680
    kept = torchvision.ops.nms(torch.from_numpy(boxes[chosen]) + offset, torch.from_numpy(score[chosen]), iou).numpy()
    return chosen[kept], score, label


def to_photo(points, photo, hold=True):
    inner_w, inner_h, left, top = letterbox(*photo)
    place = np.stack([(points[..., 0] - left) / (inner_w / photo[0]), (points[..., 1] - top) / (inner_h / photo[1])], -1)
    return place.clip(0, photo) if hold else place


def corners(boxes):
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)


def interpolate(planes, height, width):
    return torch.nn.functional.interpolate(torch.from_numpy(planes)[None], (height, width), mode="bilinear")[0].numpy()


def masks_of(shares, prototypes, boxes, photo):
    """Planes at the input's size, its padding cut off, resized to the photograph, above 0, within the box."""
    w, h = photo
    inner_w, inner_h, left, top = letterbox(*photo)
    planes = np.einsum("nk,khw->nhw", shares, prototypes).astype(np.float32)
    margin = (WIDTH - inner_w, HEIGHT - inner_h)
    zoom = next(z for z in (1, 2, 4) if all(m * z % 4 == 0 and m // 2 * z % 4 == 0 for m in margin))
    planes = interpolate(planes, HEIGHT * zoom // 4, WIDTH * zoom // 4)
    inner_w, inner_h, left, top = letterbox(*photo, WIDTH * zoom // 4, HEIGHT * zoom // 4)
    planes = interpolate(np.ascontiguousarray(planes[:, top:top + inner_h, left:left + inner_w]), h, w)
    y, x = np.mgrid[:h, :w]
    inside = [(x >= b[0]) & (x < b[2]) & (y >= b[1]) & (y < b[3]) for b in boxes]
    return ((planes > 0) & np.array(inside)).astype(np.uint8)


def overlap(p, q):
    """One less the Hellinger distance of two turned boxes' Gaussians, float64."""
    def covariance(box):
        turn = np.array([[np.cos(box[4]), -np.sin(box[4])], [np.sin(box[4]), np.cos(box[4])]])
        return turn @ np.diag([box[2] ** 2 / 12, box[3] ** 2 / 12]) @ turn.T
    a, b, apart = covariance(p), covariance(q), p[:2] - q[:2]
    both = (a + b) / 2
    distance = apart @ np.linalg.inv(both) @ apart / 8
    distance += np.log(np.linalg.det(both) / np.sqrt(np.linalg.det(a) * np.linalg.det(b))) / 2
    return 1 - np.sqrt(1 - np.exp(-distance))


def main():
    HERE.mkdir(exist_ok=True)
    names = {0: "cat", 1: "it's", 2: "dog"}
    count, photo = 60, (70, 90)
    want = resized()
    want["photo"] = rng.integers(0, 256, (photo[1], photo[0], 3), dtype=np.uint8)
    want["wide"] = rng.integers(0, 256, (41, 150, 3), dtype=np.uint8)
    boxes, scores = draw_boxes(count), rng.uniform(0, 1, (count, CLASSES)).astype(np.float32) ** 3
    scores[5] = scores[4]  # equal ones keep their order
    upright = corners(boxes)
    kept, score, label = best_of(upright, scores)

    def expect(name, kept, boxes, score=score, label=label):
        want.update({f"{name}.boxes": np.ascontiguousarray(boxes, dtype=np.float32),
                     f"{name}.scores": score[kept].astype(np.float32), f"{name}.labels": label[kept].astype(np.int32)})

    def placed(kept, photo):
        return to_photo(upright[kept].reshape(-1, 2, 2), photo).reshape(-1, 4)

    raw = np.concatenate([boxes, scores], 1)
    write_model("raw", [raw.T[None]], {"task": "detect", "names": names, "stride": 32, "imgsz": [HEIGHT, WIDTH]})
    write_model("bare", [raw.T[None]], {}, batch=2)
    write_model("open", [raw.T[None]], {"names": names, "imgsz": [HEIGHT, WIDTH]}, sides=("height", "width"))
    expect("raw", kept, placed(kept, photo))
    expect("wide", kept, placed(kept, (150, 41)))
    across = best_of(upright, scores, 0.2, True)[0]
    expect("across", across, placed(across, photo))

    prototypes = cv2.GaussianBlur(rng.normal(size=(HEIGHT // 4, WIDTH // 4, 4)), (0, 0), 2).transpose(2, 0, 1)
    prototypes = np.ascontiguousarray(prototypes * 10, dtype=np.float32)
    shares = rng.normal(size=(count, 4)).astype(np.float32)
    write_model("segment", [np.concatenate([raw, shares], 1).T[None], prototypes[None]], {"task": "segment", "names": names})
    masks = masks_of(shares[kept], prototypes, placed(kept, photo), photo)
    seen = masks.any((1, 2))
    expect("segment", kept[seen], placed(kept, photo)[seen])
    want["segment.masks"] = masks[seen]

    points = np.concatenate([rng.uniform(-5, 100, (count, 5, 2)), rng.uniform(0, 1, (count, 5, 1))], 2).astype(np.float32)
    write_model("pose", [np.concatenate([boxes, scores[:, :1], points.reshape(count, -1)], 1).T[None]],
                {"task": "pose", "names": {0: "person"}, "kpt_shape": [5, 3]})
    one, one_score, one_label = best_of(upright, scores[:, :1])
    expect("pose", one, placed(one, photo), one_score, one_label)
    want["pose.points"] = np.concatenate([to_photo(points[one][..., :2], photo), points[one][..., 2:]], 2).astype(np.float32)

    angle = rng.uniform(0, 3, (count, 1)).astype(np.float32)
    write_model("obb", [np.concatenate([raw, angle], 1).T[None]], {"task": "obb", "names": names})
    order = [i for i in np.argsort(-score, kind="stable") if score[i] > 0.25]
    turned = np.concatenate([boxes, angle], 1).astype(np.float64)
    clear = [i for n, i in enumerate(order)
             if not any(label[i] == label[j] and overlap(turned[i], turned[j]) > 0.45 for j in order[:n])]
    inner_w, inner_h, *_ = letterbox(*photo)
    size = boxes[clear, 2:] / (inner_w / photo[0], inner_h / photo[1])
    want["obb.turned"] = np.concatenate([to_photo(boxes[clear, :2], photo, False), size, angle[clear]], 1).astype(np.float32)
    expect("obb", clear, np.zeros((len(clear), 4)))

    best = np.argsort(-score, kind="stable")[:20]
    rows = np.concatenate([upright[best], score[best, None], label[best, None].astype(np.float32)], 1)
    write_model("end2end", [rows[None]], {"task": "detect", "names": names, "end2end": True})
    write_apart(rows)
    sure = best[score[best] > 0.25]
    expect("end2end", sure, placed(sure, photo))

    relative = boxes / (WIDTH, HEIGHT, WIDTH, HEIGHT)
    write_model("queries", [np.concatenate([relative[best], rows[:, 4:]], 1)[None]],
                {"task": "detect", "names": names, "head": "RTDETRDecoder"})
    write_model("queries_by_class", [np.concatenate([relative, scores], 1)[None]],
                {"task": "detect", "names": names, "description": "Ultralytics rtdetr-l model"})
    expect("queries", sure, corners(relative[sure]) * (*photo, *photo))
    every = np.array([i for i in order])
    expect("queries_by_class", every, corners(relative[every]) * (*photo, *photo))

    # YOLOv5's own repository: a factor of all scores, and its way back, from where the fractions of pixels would lie.
    many = draw_boxes(1100)
    sure, shares = rng.uniform(0, 1, (1100, 1)).astype(np.float32), rng.uniform(0, 1, (1100, CLASSES)).astype(np.float32) ** 3
    write_model("objectness", [np.concatenate([many, sure, shares], 1)[None]], {"stride": 32, "names": names})
    kept, score, label = best_of(corners(many), sure * shares)
    gain = min(WIDTH / photo[0], HEIGHT / photo[1])
    margin = np.array([WIDTH - photo[0] * gain, HEIGHT - photo[1] * gain]) / 2
    placed = ((corners(many)[kept].reshape(-1, 2, 2) - margin) / gain).clip(0, photo)
    expect("objectness", kept, placed.reshape(-1, 4), score, label)
    save_file(want, HERE / "expected.safetensors")


if __name__ == "__main__":
    main()
