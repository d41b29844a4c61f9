#!/usr/bin/env python3
"""Compares lamina detect with Ultralytics' own Python, on exports of its graphs with random weights.

    python3 -m venv venv && venv/bin/pip install ultralytics onnx onnxruntime opencv-python-headless
    venv/bin/python scripts/detect/compare_ultralytics.py --lamina build/cpu/bin/lamina [--only yolo11] [--device cuda] [--keep DIR]

Ultralytics is a test tool here (AGPL-3.0): it is installed beside, and nothing of it is in Lamina. Weights are drawn as its
modules draw them. Then, so that scores spread as a trained network's do and no two are nearly equal: batch norms take their
statistics from four letterboxed photographs, and the last convolutions of the scores are scaled so that of all scores one in
a thousand passes 0.25 and one in fifty thousand 0.88; those of the boxes so that the sides vary. Each export is run by
Ultralytics' predictor (ONNX Runtime, the letterbox of a fixed size: rect=False, retina_masks=True) and by the command, on
four photographs. A line for each: how many things, and the largest differences of what is the same thing: box in pixels,
score, point in pixels, 1 - IoU of masks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["YOLO_VERBOSE"] = "False"
import cv2  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from ultralytics import RTDETR, YOLO  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PHOTOS = [ROOT / "docs/images" / name for name in ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")]
END2END, NOT = {"end2end": True}, {"end2end": False}
CASES = [(f"yolov5n{t}", {}) for t in ("",)] + [
    *((f"yolov8n{t}", {}) for t in ("", "-seg", "-pose", "-obb", "-p2", "-p6")), ("yolov8n", {"dynamic": True}),
    ("yolov8n", {"imgsz": [320, 512]}), ("yolov8n-seg", {"imgsz": [320, 512]}), ("yolov8n", {"batch": 2}),
    ("yolov9t", {}), ("yolov9c-seg", {}), ("yolov10n", END2END), ("yolov10n", NOT),
    *((f"yolo11n{t}", {}) for t in ("", "-seg", "-pose", "-obb")),
    *((f"yolo12n{t}", {}) for t in ("", "-seg", "-pose", "-obb")),
    *((f"yolo26n{t}", kind) for t in ("", "-seg", "-pose", "-obb") for kind in (END2END, NOT)),
    ("rtdetr-resnet50", {}), ("rtdetr-l", {}),
]


def batch_of(size):
    """The photographs as the network sees them, for its statistics."""
    result = []
    for photo in PHOTOS:
        picture = cv2.imread(str(photo))
        gain = min(size / picture.shape[0], size / picture.shape[1])
        inner = cv2.resize(picture, (round(picture.shape[1] * gain), round(picture.shape[0] * gain)))
        canvas = np.full((size, size, 3), 114, np.uint8)
        y, x = (size - inner.shape[0]) // 2, (size - inner.shape[1]) // 2
        canvas[y:y + inner.shape[0], x:x + inner.shape[1]] = inner
        result.append(canvas[..., ::-1].copy())
    return torch.from_numpy(np.stack(result)).permute(0, 3, 1, 2).float() / 255


def last_layers(head, names):
    for name in names:
        for branch in getattr(head, name, None) or ():
            yield branch[-1] if isinstance(branch, torch.nn.Sequential) else getattr(branch, "layers", [branch])[-1]


@torch.no_grad()
def spread(net, photos):
    """Weights whose answers look like a trained network's."""
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
            module.reset_running_stats()
            module.train()
    net(photos)
    net.eval()
    head = net.model[-1]

    def outputs_of(layer):
        kept = []
        hook = layer.register_forward_hook(lambda _, __, out: kept.append(out.detach()))
        net(photos)
        hook.remove()
        return kept[0].flatten()

    logit = {0.999: -1.1, 0.99998: 2.0}  # of which share of all scores
    for layer in last_layers(head, ("cv3", "one2one_cv3", "dec_score_head")):
        values = outputs_of(layer).numpy()
        low, high = np.quantile(values, list(logit))
        scale = (logit[0.99998] - logit[0.999]) / max(high - low, 1e-6)
        layer.weight.mul_(scale)
        layer.bias.mul_(scale).add_(logit[0.999] - low * scale)
    for layer in last_layers(head, ("cv2", "one2one_cv2")):
        layer.weight.mul_(0.3 / max(outputs_of(layer).std().item(), 1e-6))
    for layer in last_layers(head, ("dec_bbox_head",)):
        torch.nn.init.normal_(layer.weight, std=0.05)


def export(name, how, folder, seed):
    torch.manual_seed(seed)
    model = (RTDETR if name.startswith("rtdetr") else YOLO)(name + ".yaml")
    net = model.model.eval()
    spread(net, batch_of(640))
    if "end2end" in how:
        net.model[-1].end2end = how["end2end"]
    arguments = {"imgsz": 640, **{k: v for k, v in how.items() if k != "end2end"}}
    path = Path(model.export(format="onnx", simplify=False, **arguments))
    return path.rename(folder / f"{name}{''.join('-' + k + str(v) for k, v in how.items())}.onnx".replace(" ", ""))


def pixels(mask):
    """COCO's compressed run lengths as [height, width]."""
    runs, text, at = [], mask["counts"].encode(), 0
    while at < len(text):
        value, shift, more = 0, 0, True
        while more:
            letter = text[at] - 48
            value |= (letter & 31) << shift
            more, shift, at = bool(letter & 32), shift + 5, at + 1
        if letter & 16:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    ones = np.repeat(np.arange(len(runs)) % 2, runs)
    return ones.reshape(mask["size"][::-1]).T


def compare(mine, result):
    """The largest differences between the command's detections of a photograph and Ultralytics'."""
    turned = result.obb is not None
    theirs = result.obb if turned else result.boxes
    boxes = (theirs.xywhr if turned else theirs.xyxy).numpy()
    scores, labels = theirs.conf.numpy(), theirs.cls.numpy()
    worst = {"box": 0.0, "score": 0.0, "point": 0.0, "mask": 0.0}
    left = list(range(len(boxes)))
    for thing in mine:
        box = thing["box"]
        if turned:
            box = [*thing["turned"]["centre"], *thing["turned"]["size"], thing["turned"]["angle"]]
        same = [i for i in left if labels[i] == thing["class"]]
        if not same:
            return None
        i = min(same, key=lambda i: np.abs(boxes[i] - box).max() + abs(scores[i] - thing["score"]))
        left.remove(i)
        worst["box"] = max(worst["box"], float(np.abs(boxes[i] - box).max()))
        worst["score"] = max(worst["score"], float(abs(scores[i] - thing["score"])))
        if "points" in thing:
            there, here = result.keypoints.data[i].numpy(), np.array(thing["points"])
            worst["point"] = max(worst["point"], float(np.abs(there[:, :2] - here[:, :2]).max()))
            worst["score"] = max(worst["score"], float(np.abs(there[:, 2:] - here[:, 2:]).max(initial=0)))
        if "mask" in thing:
            there, here = result.masks.data[i].numpy() > 0, pixels(thing["mask"]) > 0
            for axis, edge in zip((1, 0, 1, 0), thing["box"]):  # on a pixel's edge the last bit says whose it is
                if abs(edge - round(edge)) < 0.01:
                    there, here = (np.delete(m, np.s_[round(edge):round(edge) + 1], axis) for m in (there, here))
            worst["mask"] = max(worst["mask"], 1 - (there & here).sum() / max((there | here).sum(), 1))
    return worst if not left else None


def check(name, how, folder, options):
    path = export(name, how, folder, options.seed)
    answer = subprocess.run([options.lamina, "detect", *PHOTOS, "--model", path, "--no-pictures", "--json", "-", "--device",
                             options.device], capture_output=True, text=True)
    if answer.returncode != 0:
        return f"| {path.stem} | {answer.stderr.strip()} |", False
    task = "detect" if name.startswith("rtdetr") else YOLO(name + ".yaml").task
    model = RTDETR(path) if name.startswith("rtdetr") else YOLO(path, task=task)
    count, total, wrong = 0, {}, []
    size = how.get("imgsz", 640)
    for photo, mine in zip(PHOTOS, json.loads(answer.stdout)):
        result = model.predict([str(photo)] * how.get("batch", 1), conf=0.25, iou=0.45, rect=False, retina_masks=True,
                               imgsz=size, verbose=False, device="cpu")[0]
        worst = compare(mine["detections"], result)
        count += len(mine["detections"])
        if worst is None:
            wrong.append(f"{photo.name}: {len(mine['detections'])} things, {len(result)} by Ultralytics")
        total = {k: max(total.get(k, 0), v) for k, v in (worst or {}).items()}
    most = {"box": options.pixels, "score": 1e-4, "point": options.pixels, "mask": 0.001}
    good = not wrong and count > 0 and all(total[k] <= most[k] for k in most)
    cells = [f"{total.get(k, 0):.1e}" if total.get(k) else "0" for k in most]
    return f"| {path.stem} | {count} | {' | '.join(cells)} | {'; '.join(wrong) or ('' if good else 'too far')} |", good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="lamina")
    parser.add_argument("--only", default="", help="exports whose name begins so")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pixels", type=float, default=0.01, help="how far boxes may differ; 0.1 on a GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", help="a folder for the exports")
    options = parser.parse_args()
    options.lamina = str(Path(options.lamina).resolve()) if "/" in options.lamina else options.lamina
    failed = 0
    print("| export | things | box, px | score | point, px | 1 − mask IoU | |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.keep or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(scratch)
        for name, how in CASES:
            if not name.startswith(options.only):
                continue
            line, good = check(name, how, folder, options)
            failed += not good
            print(line, flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
