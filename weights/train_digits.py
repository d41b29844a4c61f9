#!/usr/bin/env python3
"""Trains weights/digits.safetensors: a small network in AlexNet's shape that reads handwritten digits.

    python3 -m pip install torch scikit-learn pillow
    python3 weights/train_digits.py

The digits are scikit-learn's, 1797 grey pictures of 8 x 8 pixels (E. Alpaydin and C. Kaynak, Optical Recognition of
Handwritten Digits, UCI Machine Learning Repository, doi 10.24432/C50P49, CC BY 4.0). The first 1437 are learned from,
the last 360 are kept for the test and used for nothing else. Writes
    weights/digits.safetensors       the model: graph, weights, preprocessing, class names
    weights/digits/test.safetensors  the 360 pictures, as bytes, and what they show
    weights/digits/[0-9].png         the first picture of each digit among them
and prints the accuracy on the 360. Seeded; about a minute on one core.
"""

import argparse
import struct
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import export_torch  # noqa: E402

TEST = 360
SIDE = 32
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
DESCRIPTION = "reads one handwritten digit that fills the picture"
PREPROCESS = {"resize": SIDE, "crop": SIDE, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}


class Digits(nn.Module):
    """AlexNet's thirteen layers of features and its classifier, at a hundredth of the width."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(),
            nn.Conv2d(48, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2))
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(32 * 3 * 3, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 64), nn.ReLU(),
            nn.Linear(64, len(LABELS)))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


def load():
    """Pictures [N, 8, 8] of bytes, white on black, and the digits they show."""
    digits = load_digits()
    pictures = np.minimum(digits.images * 16, 255).astype(np.uint8)  # the set's levels are 0 to 16
    return pictures, digits.target.astype(np.uint8)


def enlarged(pictures):
    """As the model's preprocessing does it, before normalisation: [N, 1, SIDE, SIDE], 0 to 1."""
    large = [np.asarray(Image.fromarray(p).resize((SIDE, SIDE), Image.BILINEAR)) for p in pictures]
    return torch.from_numpy(np.stack(large)[:, None] / np.float32(255))


def varied(x, random):
    """Turned, moved, stretched, of crisp or soft strokes, light on dark or dark on light, in any two greys or colours:
    so that the network may also read digits that people draw."""
    n = len(x)

    def uniform(low, high, *shape):
        return torch.rand(*(shape or (n,)), generator=random) * (high - low) + low

    turn, zoom, stretch, shear = uniform(-0.2, 0.2), uniform(0.8, 1.2), uniform(0.9, 1.1), uniform(-0.2, 0.2)
    matrix = torch.stack([torch.stack([zoom * stretch * turn.cos(), shear - zoom * turn.sin(), uniform(-0.15, 0.15)], 1),
                          torch.stack([zoom * turn.sin(), zoom / stretch * turn.cos(), uniform(-0.15, 0.15)], 1)], 1)
    x = F.grid_sample(x, F.affine_grid(matrix, x.shape, align_corners=False), align_corners=False)
    gain, level = uniform(4, 20, n, 1, 1, 1), uniform(0.25, 0.6, n, 1, 1, 1)
    crisp = torch.sigmoid(gain * (x - level))
    x = torch.where(uniform(0, 1, n, 1, 1, 1) < 0.5, crisp, x)
    ink, paper = uniform(0.6, 1, n, 3, 1, 1), uniform(0, 0.3, n, 3, 1, 1)
    plain = uniform(0, 1, n, 1, 1, 1) < 0.5
    ink, paper = torch.where(plain, torch.ones(1), ink), torch.where(plain, torch.zeros(1), paper)
    x = paper + x * (ink - paper)
    return torch.where(uniform(0, 1, n, 1, 1, 1) < 0.4, 1 - x, x)


def normalised(x):
    return (x.expand(-1, 3, -1, -1) - 0.5) / 0.5


def train(pictures, targets, epochs, seed):
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    x, y = enlarged(pictures), torch.from_numpy(targets).long()
    net = Digits()
    size = 64
    steps = epochs * -(-len(x) // size)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for epoch in range(epochs):
        net.train()
        losses = []
        for batch in torch.randperm(len(x), generator=random).split(size):
            loss = F.cross_entropy(net(normalised(varied(x[batch], random))), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}")
    return net.eval()


def write_bytes(path, tensors):
    """A safetensors file of u8 tensors."""
    begin, parts = 0, []
    for name, values in tensors.items():
        parts.append(f'"{name}":{{"dtype":"U8","shape":{list(values.shape)},"data_offsets":[{begin},{begin + values.size}]}}')
        begin += values.size
    text = ("{" + ",".join(parts) + "}").encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in tensors.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "weights", metavar="DIR")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1998)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the order of sums, and so the weights, depend on it

    pictures, targets = load()
    net = train(pictures[:-TEST], targets[:-TEST], args.epochs, args.seed)
    with torch.no_grad():
        scores = net(normalised(enlarged(pictures[-TEST:])))
    right = int((scores.argmax(1).numpy() == targets[-TEST:]).sum())
    print(f"{right} of {TEST} test digits are read rightly: {right / TEST:.2%}")

    (args.out / "digits").mkdir(exist_ok=True)
    export_torch.export(net, args.out / "digits.safetensors", [(3, SIDE, SIDE)], LABELS, PREPROCESS,
                        description=DESCRIPTION)
    write_bytes(args.out / "digits/test.safetensors", {"images": pictures[-TEST:], "targets": targets[-TEST:]})
    for digit in range(10):
        first = pictures[-TEST:][targets[-TEST:] == digit][0]
        Image.fromarray(first).save(args.out / f"digits/{digit}.png", optimize=True)


if __name__ == "__main__":
    main()
