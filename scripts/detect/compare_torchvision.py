#!/usr/bin/env python3
"""Compares `lamina detect` on exports of torchvision's detectors with torchvision's own answers, and with the truth.

    python3 -m venv venv && venv/bin/pip install torch torchvision onnx opencv-python-headless
    venv/bin/python scripts/detect/compare_torchvision.py --lamina build/cpu/bin/lamina

No weights are loaded. Each of torchvision's detectors gets a backbone of three layers and learns here, in a minute, to
find red, green and blue rectangles in noise, as classes of COCO's 91: so it is known what is in a picture. Then it is
exported, `lamina detect` is shown pictures of other sizes and proportions, and torchvision the same pictures on the
export's canvas.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from torchvision.ops import MultiScaleRoIAlign, box_iou

HEIGHT, WIDTH = 96, 128  # of the export
COLOURS = {3: (220, 40, 40), 17: (40, 200, 60), 18: (50, 60, 220)}  # car, cat, dog
NAMES = {3: "car", 17: "cat", 18: "dog"}


def backbone():
    layers = []
    for width in (3, 32, 32):
        layers += [nn.Conv2d(width, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU()]
    net = nn.Sequential(*layers)
    net.out_channels = 32
    return net


def make(name):
    common = {"num_classes": 91, "min_size": HEIGHT, "max_size": WIDTH}
    if name == "fcos":
        return detection.FCOS(backbone(), anchor_generator=AnchorGenerator(((8,),), ((1.0,),)), **common)
    if name == "retinanet":
        return detection.RetinaNet(backbone(), anchor_generator=AnchorGenerator(((16, 26, 40),), ((0.5, 1.0, 2.0),)), **common)
    if name == "ssd":
        boxes = DefaultBoxGenerator([[2]], scales=[0.2, 0.4], steps=[8])
        head = detection.ssd.SSDHead([32], boxes.num_anchors_per_location(), 91)
        return detection.ssd.SSD(backbone(), boxes, (WIDTH, HEIGHT), 91, head=head)
    box_head = detection.faster_rcnn.TwoMLPHead(32 * 49, 64)
    rois = MultiScaleRoIAlign(["0"], 7, 2)
    common.pop("num_classes")
    return detection.FasterRCNN(backbone(), rpn_anchor_generator=AnchorGenerator(((16, 26, 40),), ((0.5, 1.0, 2.0),)), box_roi_pool=rois,
                                box_head=box_head, box_predictor=detection.faster_rcnn.FastRCNNPredictor(64, 91), **common)


def draw(rng, height, width, scale=1.0):
    """A picture, and what is in it: rectangles that do not touch."""
    picture = rng.integers(90, 140, (height, width, 3), dtype=np.uint8)
    boxes, labels = [], []
    for _ in range(30):
        w, h = (rng.uniform(16, 40, 2) * scale).astype(int)
        x, y = rng.integers(0, width - w), rng.integers(0, height - h)
        if any(x < b[2] + 4 and b[0] < x + w + 4 and y < b[3] + 4 and b[1] < y + h + 4 for b in boxes) or len(boxes) == 4:
            continue
        labels.append(int(rng.choice(list(COLOURS))))
        picture[y:y + h, x:x + w] = np.clip(COLOURS[labels[-1]] + rng.normal(0, 10, (h, w, 3)), 0, 255)
        boxes.append((x, y, x + w, y + h))
    return picture, torch.tensor(boxes, dtype=torch.float32), torch.tensor(labels)


def as_input(picture):
    return torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1).float() / 255


def train(model, steps):
    rng = np.random.default_rng(1)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)
    for _ in range(steps):
        shown = [draw(rng, HEIGHT, WIDTH) for _ in range(4)]
        losses = model.train()([as_input(p) for p, _, _ in shown], [{"boxes": b, "labels": l} for _, b, l in shown])
        optimizer.zero_grad()
        sum(losses.values()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def letterboxed(picture):
    """The picture on the export's canvas, and the way back: gain across and down, left, top."""
    h, w = picture.shape[:2]
    gain = min(HEIGHT / h, WIDTH / w)
    inner_w, inner_h = round(w * gain), round(h * gain)
    left, top = round((WIDTH - inner_w) / 2 - 0.1), round((HEIGHT - inner_h) / 2 - 0.1)
    canvas = np.full((HEIGHT, WIDTH, 3), 114, np.uint8)
    canvas[top:top + inner_h, left:left + inner_w] = cv2.resize(picture, (inner_w, inner_h), interpolation=cv2.INTER_LINEAR)
    return canvas, torch.tensor([left, top] * 2), torch.tensor([inner_w / w, inner_h / h] * 2)


def compare(name, model, lamina, folder, confidence):
    model_path = folder / f"{name}.onnx"
    torch.onnx.export(model, ([torch.rand(3, HEIGHT, WIDTH)],), model_path, opset_version=17, dynamo=False)
    rng = np.random.default_rng(2)
    sizes = [(96, 128, 1), (384, 512, 4), (300, 200, 2), (120, 480, 2)]
    things = found_truly = true_things = 0
    apart = score_apart = 0.0
    for i, (h, w, scale) in enumerate(sizes):
        picture, boxes, labels = draw(rng, h, w, scale)
        path = folder / f"{name}-{i}.png"
        cv2.imwrite(str(path), picture[..., ::-1])
        subprocess.run([lamina, "detect", path, "--model", model_path, "--json", folder / "found.json", "--confidence", str(confidence), "--device", "cpu",
                        "--out", folder / f"{name}-{i}-detections.png"], check=True, capture_output=True)
        found, = json.loads((folder / "found.json").read_text())
        found = found["detections"]
        canvas, start, gain = letterboxed(picture)
        with torch.no_grad():
            own, = model([as_input(canvas)])
        keep = own["scores"] > confidence
        want = (own["boxes"][keep] - start) / gain
        want = want.clamp(min=0).minimum(torch.tensor([w, h] * 2))
        got = torch.tensor([t["box"] for t in found]).reshape(-1, 4)
        assert [t["class"] for t in found] == own["labels"][keep].tolist(), (name, i, found, own)
        assert all(t["name"] == NAMES[t["class"]] for t in found if t["class"] in NAMES)
        things += len(found)
        if len(found):
            apart = max(apart, (got - want).abs().max().item())
            score_apart = max(score_apart, (torch.tensor([t["score"] for t in found]) - own["scores"][keep]).abs().max().item())
            right = (box_iou(boxes, got) > 0.5) & (labels[:, None] == torch.tensor([t["class"] for t in found])[None])
            found_truly += right.any(1).sum().item()
        true_things += len(boxes)
    print(f"| {name} | {things} | {apart:.0e} · {score_apart:.0e} | {found_truly} of {true_things} |", flush=True)
    return things > 0 and found_truly > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--lamina", required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--confidence", type=float, default=0.4)
    parser.add_argument("--keep", type=Path, help="a folder for exports and pictures")
    parser.add_argument("names", nargs="*", default=["fcos", "retinanet", "ssd", "fasterrcnn"])
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| export | things | px · score | of what is there |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        results = []
        for name in args.names:
            torch.manual_seed(0)
            trained = folder / f"{name}.pt"
            model = make(name)
            if trained.exists():
                model.load_state_dict(torch.load(trained))
                model.eval()
            else:
                torch.save(train(model, args.steps * (3 if name == "retinanet" else 1)).state_dict(), trained)  # it learns slowly
            results.append(compare(name, model, args.lamina, folder, args.confidence))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
