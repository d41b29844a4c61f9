#!/usr/bin/env python3
"""Compares lamina detect with what Ultralytics' own Python found, kept in a folder by keep_ultralytics.py. Needs NumPy.

    scripts/detect/compare_kept.py FOLDER --lamina build/hopper/bin/lamina --device cuda
    scripts/detect/compare_kept.py FOLDER --lamina build/hopper/bin/lamina --device cuda --time FOLDER/full-*.onnx

A line for each export: how many things, and the largest differences of what is the same thing: box or point in pixels,
score, 1 - IoU of masks; behind it, how far ONNX Runtime with and without its optimisations differs from itself. With
--time how long a photograph takes, and the network in it.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np


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


def things_in(answer):
    """What the command found."""
    result = []
    for thing in answer["detections"]:
        turned = thing.get("turned")
        box = [*turned["centre"], *turned["size"], turned["angle"]] if turned else thing["box"]
        result.append({**thing, "box": np.array(box), "points": np.array(thing.get("points", [])).reshape(-1, 3),
                       "mask": pixels(thing["mask"]) > 0 if "mask" in thing else None})
    return result


def difference(mine, theirs):
    """The largest ones between the same things, [pixels, score, 1 - IoU]; None where they are not the same."""
    worst, left = np.zeros(3), list(theirs)
    for thing in mine:
        same = [i for i, other in enumerate(left) if other["class"] == thing["class"]]
        if not same:
            return None
        other = left.pop(min(same, key=lambda i: np.abs(left[i]["box"] - thing["box"]).max() + abs(left[i]["score"] - thing["score"])))
        points = np.abs(other["points"] - thing["points"])
        here, there, share = thing["mask"], other["mask"], 0
        if here is not None:
            for axis, edge in zip((1, 0, 1, 0), thing["box"]):  # on a pixel's edge the last bit says whose it is
                if abs(edge - round(edge)) < 0.01:
                    here, there = (np.delete(m, np.s_[round(edge):round(edge) + 1], axis) for m in (here, there))
            either, not_both = (here | there).sum(), (here ^ there).sum()
            share = not_both / either if not_both > 1 else 0  # one pixel may differ of masks of any size
        worst = np.maximum(worst, [max(np.abs(other["box"] - thing["box"]).max(), points[:, :2].max(initial=0)),
                                   max(abs(other["score"] - thing["score"]), points[:, 2:].max(initial=0)), share])
    return None if left else worst


def kept_things(kept, photo):
    """What Ultralytics found in a photograph."""
    field = {key.rsplit(".", 1)[1]: kept[key] for key in kept.files if key.startswith(photo + ".")}
    count, shape = len(field["class"]), field.get("shape")
    masks = [np.unpackbits(m, count=shape.prod()).reshape(shape) > 0 for m in field["mask"]] if shape is not None else [None] * count
    return [{"box": field["box"][i], "class": int(field["class"][i]), "score": float(field["score"][i]),
             "points": field["points"][i], "mask": masks[i]} for i in range(count)]


def words(worst):
    return " | ".join("0" if v == 0 else f"{v:.0e}" for v in worst)


def compare(folder, expected, options):
    kept = np.load(expected)
    how = json.loads(str(kept["how"]))
    model = folder / how["model"]
    command = [options.lamina, "detect", *(folder / photo for photo in how["photos"]), "--model", model, "--no-pictures",
               "--json", "-", "--confidence", str(how["confidence"]), "--iou", str(how["iou"]), "--device", options.device]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        return f"| {model.stem} | {answer.stderr.strip()} |", False
    found = [things_in(one) for one in json.loads(answer.stdout)]
    worst = [difference(mine, kept_things(kept, photo)) for mine, photo in zip(found, how["photos"])]
    together = np.max([w for w in worst if w is not None] + [np.zeros(3)], axis=0)
    noise = np.array(how["noise"])
    bounds = np.maximum([options.pixels, 1e-4, 1e-3], 3 * noise)
    different = sum(w is None for w in worst)
    good = different == 0 and bool((together <= bounds).all())
    note = f" other things in {different} of {len(worst)} photographs" if different else ""
    return f"| {model.stem} | {sum(map(len, found))} | {words(together)} | {words(noise)} |{note}{'' if good else ' **too far**'}", good


def times(folder, model, options):
    """Milliseconds, and the network's: medians of each photograph that is given for that, again and again."""
    for photo in sorted(folder.glob("time-*.jpg")):
        answer = subprocess.run([options.lamina, "detect", *[photo] * options.runs, "--model", model, "--no-pictures", "--device",
                                 options.device, *options.more], capture_output=True, text=True)
        found = re.findall(r"([0-9]+x[0-9]+): (.*); ([0-9.]+) ms, the network ([0-9.]+),", answer.stdout)
        if not found:
            yield f"| {model.stem} | {(answer.stderr or answer.stdout).strip().splitlines()[-1:]} |"
            continue
        whole, network = np.median(np.array([line[2:] for line in found[options.runs // 6:]], float), axis=0)
        things = sum(int(count) for count in re.findall(r"(\d+) [^,]+(?:,|$)", found[-1][1]))
        yield (f"| {model.stem} {' '.join(options.more)} | {found[-1][0]} | {things} | {whole:.2f} | {network:.2f} | "
               f"{100 * (whole - network) / network:.0f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lamina", default="lamina")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pixels", type=float, default=0.1, help="how far boxes may differ")
    parser.add_argument("--time", nargs="*", type=Path, default=[], help="models to be timed")
    parser.add_argument("--runs", type=int, default=30, help="of each photograph that is timed, the first sixth not counted")
    parser.add_argument("--more", type=str.split, default=[], help="options of lamina detect, when it is timed")
    options = parser.parse_args()
    failed = 0
    if not options.time:
        print("| | | on Ultralytics' | | | ONNX Runtime's two ways | | |\n" + "|---" * 8 + "|\n"
              "| export | things" + " | px | score | 1 - IoU" * 2 + " |")
    for expected in sorted(options.folder.glob("*.npz")) if not options.time else []:
        line, good = compare(options.folder, expected, options)
        failed += not good
        print(line, flush=True)
    for i, model in enumerate(options.time):
        if i == 0:
            print("| model | photograph | things | ms | of them the network | the rest, of it |\n" + "|---" * 6 + "|")
        for line in times(options.folder, model, options):
            print(line, flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
