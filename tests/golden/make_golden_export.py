#!/usr/bin/env python3
"""Writes a network that scripts/export_torch.py exported, and PyTorch's values for it.

    python3 tests/golden/make_golden_export.py

Needs torch. Run by hand; the files it writes are committed:
    exported.safetensors         the model file
    exported-golden.safetensors  its inputs, and every node's output as PyTorch computes it
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import export_torch  # noqa: E402


class Branch(nn.Module):
    """A depthwise convolution and a shortcut; uses one ReLU and one convolution twice, and adds in place."""

    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding="same", groups=channels, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.mix = nn.Conv2d(channels, channels, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.norm(self.depthwise(x)))
        y = self.mix(self.mix(y))
        z = self.relu(y)  # in place: y is z from here on
        y += x
        return z


class EveryOp(nn.Module):
    """All the ops of the model format, as modules, functions and methods."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(2, 1)),
                                  nn.LocalResponseNorm(5, k=2.0), nn.Identity(), nn.MaxPool2d(3, 2, ceil_mode=True))
        self.branch = Branch(8)
        self.plain_norm = nn.BatchNorm2d(8, affine=False, eps=1e-3)
        self.pool = nn.AvgPool2d(2, 1, padding=1, count_include_pad=False)
        self.grid = nn.AdaptiveAvgPool2d((3, None))
        self.drop = nn.Dropout2d()
        self.head = nn.Linear(16 * 3 * 4, 6, bias=False)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        x = self.stem(x)
        left = self.plain_norm(self.branch(x))
        right = torch.sigmoid(F.avg_pool2d(x, 3, stride=1, padding=1)).relu()
        x = torch.cat([left, F.max_pool2d(right, 3, 1, 1)], dim=1)
        x = self.drop(self.grid(self.pool(x)))
        y = F.adaptive_avg_pool2d(x, (3, 4))
        y = self.head(F.dropout(y.view(y.size(0), -1), training=self.training))
        return F.softmax(y, dim=1), x.mean([2, 3])


def make(seed=0):
    torch.manual_seed(seed)
    net = EveryOp()
    for norm in net.modules():
        if isinstance(norm, nn.BatchNorm2d):  # as if it had been trained
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2)
    return net


def main():
    net = make()
    torch.manual_seed(1)
    export_torch.export(net, HERE / "exported.safetensors", [(3, 19, 14)], golden=HERE / "exported-golden.safetensors")


if __name__ == "__main__":
    main()
