#!/usr/bin/env python3
"""Compares lamina detect with Ultralytics' own Python, on exports of its graphs with random weights.

    python3 -m venv venv && venv/bin/pip install ultralytics onnx onnxruntime safetensors
    venv/bin/python scripts/detect/compare_ultralytics.py --lamina build/cpu/bin/lamina [--only yolo11] [--device cuda] [--keep DIR]

Ultralytics is a test tool here (AGPL-3.0): it is installed beside, and nothing of it is in Lamina. Weights are drawn as its
modules draw them. Then, so that scores spread as a trained network's do and no two are nearly equal: batch norms take their
statistics from four letterboxed photographs, and the last convolutions of the scores are scaled so that of all scores one in
a thousand passes 0.25 and one in fifty thousand 0.88; those of the boxes so that the sides vary. Each export finds things
on four photographs four times: by the command; by Ultralytics' predictor (the letterbox of a fixed size: rect=False,
retina_masks=True) on what `lamina run` answers, which leaves no difference but the one of what is before and behind the
network; by the same on what ONNX Runtime answers, and on what ONNX Runtime answers without its optimisations: random networks
amplify the last bits, and two ways of summing differ by so much. A line for each export: how many things, and the largest
differences of what is the same thing: box or point in pixels, score, 1 - IoU of masks.
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
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from ultralytics import RTDETR, YOLO  # noqa: E402

from compare_kept import difference, things_in  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PHOTOS = [ROOT / "docs/images" / name for name in ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")]
END2END, NOT = {"nms": False}, {}  # of exports of v10 and 26: without NMS in any place, or with the raw boxes for it
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
        return kept[0].flatten() if kept else torch.zeros(0)

    logit = {0.999: -1.1, 0.99998: 2.0}  # of which share of all scores
    for layer in last_layers(head, ("cv3", "one2one_cv3", "dec_score_head")):
        values = outputs_of(layer).numpy()
        if values.size == 0:  # RT-DETR asks its last decoder alone
            continue
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
    path = Path(model.export(format="onnx", simplify=False, **{"imgsz": 640, **how}))
    return path.rename(folder / f"{name}{''.join('-' + k + str(v) for k, v in how.items())}.onnx".replace(" ", ""))


def things_of(result):
    """What Ultralytics found, as the command says it."""
    turned = result.obb is not None
    found = result.obb if turned else result.boxes
    return [{"box": box, "class": int(label), "score": float(score),
             "points": result.keypoints.data[i].numpy() if result.keypoints is not None else np.zeros((0, 3)),
             "mask": result.masks.data[i].numpy() > 0 if result.masks is not None else None}
            for i, (box, label, score) in enumerate(zip((found.xywhr if turned else found.xyxy).numpy(), found.cls, found.conf))]


def networks(path, options, folder):
    """Who answers to an input: Lamina, ONNX Runtime, and ONNX Runtime without its optimisations."""
    def lamina(images):
        np.save(folder / "images.npy", images)
        subprocess.run([options.lamina, "run", "--model", path, "--input", folder / "images.npy", "--out",
                        folder / "answer.safetensors", "--device", options.device], check=True, capture_output=True)
        return [value for _, value in sorted(load_file(folder / "answer.safetensors").items())]

    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    sessions = [onnxruntime.InferenceSession(path, settings) for settings in (None, plain)]
    return [lamina, *(lambda images, s=session: s.run(None, {s.get_inputs()[0].name: images}) for session in sessions)]


def finder(name, how, path):
    """What Ultralytics' predictor finds in a photograph when a network answers."""
    model = RTDETR(path) if name.startswith("rtdetr") else YOLO(path, task=YOLO(name + ".yaml").task)
    settings = dict(rect=False, retina_masks=True, imgsz=how.get("imgsz", 640), verbose=False, device="cpu")
    model.predict(str(PHOTOS[0]), **settings)  # makes the predictor

    def find(photo, network, conf=0.25, iou=0.45):
        def inference(images, *_, **__):
            outputs = [torch.from_numpy(output.copy()) for output in network(images.numpy())]
            return outputs if len(outputs) > 1 else outputs[0]

        model.predictor.inference = inference
        return things_of(model.predict([str(photo)] * how.get("batch", 1), conf=conf, iou=iou, **settings)[0])

    return find


def check(name, how, folder, options):
    path = export(name, how, folder, options.seed)
    answer = subprocess.run([options.lamina, "detect", *PHOTOS, "--model", path, "--no-pictures", "--json", "-", "--device",
                             options.device], capture_output=True, text=True)
    if answer.returncode != 0:
        return f"| {path.stem} | {answer.stderr.strip()} |", False
    find = finder(name, how, path)
    mine = [things_in(answer) for answer in json.loads(answer.stdout)]
    own, runtime, plain = ([find(photo, network) for photo in PHOTOS] for network in networks(path, options, folder))
    count, cells, good = sum(map(len, mine)), [], True
    noise = [difference(*pair) for pair in zip(runtime, plain)]
    bounds = np.array([options.pixels, 1e-4, 0.001])
    for others, most in ((own, np.array([1e-3, 1e-7, 0.001])), (runtime, bounds), (None, None)):
        worst = [difference(*pair) for pair in zip(mine, others)] if others else noise
        together = np.max([w for w in worst if w is not None], axis=0) if any(w is not None for w in worst) else np.full(3, np.nan)
        cells += ["0" if v == 0 else f"{v:.0e}" for v in together]
        if others is own:
            good &= all(w is not None for w in worst) and bool((together <= most).all())
        elif others:  # as near as the reference is to itself
            floor = np.max([w for w in noise if w is not None] + [np.zeros(3)], axis=0)
            floor[2] = max(floor[2], floor[:2].max() > 0 and 0.002)  # a pixel of a small mask
            good &= sum(w is None for w in worst) <= sum(w is None for w in noise)
            good &= bool((together <= np.maximum(most, 3 * floor)).all())
    return f"| {path.stem} | {count} | {' | '.join(cells)} |{'' if good else ' **too far** |'}", good and count > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="lamina")
    parser.add_argument("--only", default="", help="exports whose name begins so, with commas between")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pixels", type=float, default=0.01, help="how far boxes may differ; 0.1 on a GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", help="a folder for the exports")
    options = parser.parse_args()
    options.lamina = str(Path(options.lamina).resolve()) if "/" in options.lamina else options.lamina
    failed = 0
    print("| | | on its own numbers | | | on ONNX Runtime's | | | ONNX Runtime's two ways | | |\n" + "|---" * 11 + "|\n"
          "| export | things" + " | px | score | mask" * 3 + " |")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.keep or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(scratch)
        for name, how in CASES:
            if not name.startswith(tuple(options.only.split(","))):
                continue
            line, good = check(name, how, folder, options)
            failed += not good
            print(line, flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
