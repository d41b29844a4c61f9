#!/usr/bin/env python3
"""Keeps what Ultralytics' own Python finds with narrow random networks, for machines where it is not installed.

    venv/bin/python scripts/detect/keep_ultralytics.py FOLDER [--only yolo11]
    scripts/detect/compare_kept.py FOLDER --lamina build/hopper/bin/lamina --device cuda      # there

The graphs are those of Ultralytics' YAMLs with a quarter of the channels and 20 classes, exported to ONNX in f32; weights and photographs
are those of compare_ultralytics.py, the numbers ONNX Runtime's. Of confidence and IoU those are taken, next to 0.25 and 0.45,
at which the same things are found although the numbers move four times as far as from ONNX Runtime to ONNX Runtime without
optimisations: what is kept does not hang on a last bit.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import onnx
import ultralytics
import yaml

from compare_kept import difference
from compare_ultralytics import END2END, NOT, PHOTOS, export, finder, networks

CASES = [("yolov5n", {}), *((f"yolov8n{t}", {}) for t in ("", "-seg", "-pose", "-obb")), ("yolov8n", {"dynamic": True}),
         ("yolov8n", {"imgsz": [320, 512]}), ("yolov8n-seg", {"imgsz": [320, 512]}), ("yolov8n", {"batch": 2}),
         ("yolov9t", {}), ("yolov10n", END2END), ("yolov10n", NOT), *((f"yolo11n{t}", {}) for t in ("", "-seg", "-pose", "-obb")),
         ("yolo12n", {}), *((f"yolo26n{t}", kind) for t in ("", "-seg", "-pose", "-obb") for kind in (END2END, NOT)), ("rtdetr-l", {"imgsz": 256})]


def narrow(name, folder):
    """Ultralytics' graph of that name with few channels, as a YAML of the same name."""
    stem = re.sub(r"(?<=v5|v8|11|12|26)n", "", name)  # the scale, where one file has them all
    source = next(Path(ultralytics.__file__).parent.glob(f"cfg/models/*/{stem}.yaml"))
    graph = yaml.safe_load(source.read_text())
    graph["nc"] = 20
    detr = name.startswith("rtdetr")
    if "n" in graph.get("scales", {}):
        depth, width, most = graph["scales"]["n"]
        graph["scales"] = {"n": [depth, width / 4, most]}
    else:
        for layer in graph["backbone"] + graph["head"]:
            layer[3] = [arg // (8 if detr else 4) if type(arg) is int and arg >= 64 else arg for arg in layer[3]]
    for layer in graph["backbone"] + graph["head"]:
        if layer[2] == "A2C2f":  # whose heads have 32 channels each
            layer[3][0] = max(layer[3][0], 1024)
        if layer[2] == "RTDETRDecoder":
            # All boxes of 256 pixels are queries. To choose 300 hangs on a last bit, and the chosen look at each other.
            layer[3] = ["nc", 32, 1344, 4, 4, 2, 64]
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(graph))


def round_weights(path):
    """To the 16 bits of bf16, still stored as f32: half of it is zeros then, which packs."""
    model = onnx.load(path)
    for weight in model.graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        if values.dtype == np.float32 and values.size > 64:
            short = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
            weight.CopyFrom(onnx.numpy_helper.from_array(short, weight.name))
    onnx.save(model, path)


def same(found, others):
    """Whether these are the same things but for what numbers that moved do to them."""
    worst = [difference(*pair) for pair in zip(found, others)]
    return all(w is not None and w[0] < 0.5 and w[1] < 5e-3 for w in worst)


def keep(name, how, folder, options, seed):
    if not (Path.cwd() / f"{name}.yaml").exists():
        narrow(name, Path.cwd())
    path = export(name, how, folder, seed)
    round_weights(path)
    find = finder(name, how, path)
    answers = {}

    def moved(step):
        """ONNX Runtime's numbers, and so many times as far from them as those without optimisations are."""
        def network(images):
            key = images.tobytes()
            if key not in answers:
                answers[key] = [n(images) for n in networks(path, options, folder)[1:]]
            return [(a.astype(float) + step * (b.astype(float) - a)).astype(np.float32) for a, b in zip(*answers[key])]
        return network

    for conf, iou in itertools.product(np.arange(0.25, 0.31, 0.01).round(2), (0.45, 0.44, 0.46, 0.43, 0.47)):
        found, plain, *others = [[find(photo, moved(step), conf, iou) for photo in PHOTOS] for step in (0, 1, 4, -4)]
        if all(same(found, other) for other in (plain, *others)):
            break
    else:
        return None
    noise = np.max([difference(*pair) for pair in zip(found, plain)], axis=0)
    kept = {"how": json.dumps({"model": path.name, "photos": [p.name for p in PHOTOS], "confidence": float(conf), "iou": float(iou),
                               "noise": noise.tolist()})}
    for photo, things in zip(PHOTOS, found):
        for key in ("box", "class", "score", "points"):
            kept[f"{photo.name}.{key}"] = np.array([thing[key] for thing in things])
        if things and things[0]["mask"] is not None:
            kept[f"{photo.name}.shape"] = np.array(things[0]["mask"].shape)
            kept[f"{photo.name}.mask"] = np.stack([np.packbits(thing["mask"]) for thing in things])
    np.savez_compressed(path.with_suffix(".npz"), **kept)
    return f"{path.stem}: {sum(map(len, found))} things above {conf}, IoU {iou}, {path.stat().st_size / 2**20:.1f} MiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="exports whose name begins so, with commas between")
    parser.add_argument("--full", nargs="*", default=[], help="networks that are exported as they are, to be timed")
    options = parser.parse_args()
    options.lamina = options.device = None
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for photo in PHOTOS:
        shutil.copy(photo, folder)
    for width, height in ((640, 480), (1920, 1080), (4000, 3000)):
        cv2.imwrite(str(folder / f"time-{width}.jpg"), cv2.resize(cv2.imread(str(PHOTOS[0])), (width, height)))
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for name, how in CASES:
            if name.startswith(tuple(options.only.split(","))):
                print(next(filter(None, (keep(name, how, folder, options, seed) for seed in range(8))), f"{name}: hangs on a last bit"), flush=True)
        for name in options.full:
            Path(f"{name}.yaml").unlink(missing_ok=True)  # the narrow one
            round_weights(export(name, {}, Path.cwd(), 0).rename(folder / f"full-{name}.onnx"))


if __name__ == "__main__":
    sys.exit(main())
