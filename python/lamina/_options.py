"""The keywords of `compile`: the fields of the C++ library's CompileOptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from ._core import DeviceDescription, Preprocess


class CompileOptions(TypedDict, total=False):
    """What a plan is compiled for. Every keyword may be left out."""

    device: str
    batch: int
    precision: Literal["fp32", "tf32", "fp16", "bf16"]
    linear_weights: Literal["f32", "bf16", "f16"]
    threads: int
    algorithm: str
    fuse: bool
    keep_all: bool
    workspace_limit: int
    batch_invariant: bool
    capture: bool
    photos: bool | Preprocess | None
    input_format: str
    output_format: str
    description: DeviceDescription
    input_shapes: dict[str, Sequence[int]]
    outputs: Sequence[str]
    constants: dict[str, Any]
    capacity: dict[str, int]


EXPLAINED = {
    "device": '"auto" (a GPU if there is one), "cpu", "cuda", "cuda:1"',
    "batch": "Images that run together; 1",
    "precision": "Of the arithmetic, docs/inside/precision.md; a CPU has fp32 and bf16",
    "linear_weights": "On the CPU: how fully connected layers keep theirs",
    "threads": "On the CPU; 0: one for each core",
    "algorithm": 'Of every convolution; "": the fastest, by rule',
    "fuse": "Fold batch norms and activations into what they follow; True",
    "keep_all": "Keep every node's output for Plan.activation",
    "workspace_limit": "Bytes, on a GPU; 256 MiB",
    "batch_invariant": "An image's bits depend on no other image and not on the batch; on a CPU they never do",
    "capture": "On a GPU: replay runs at the same addresses; True",
    "photos": "Inputs are uint8 [N, H, W, 3] and normalised on the device; True: as the model's `preprocess` says",
    "input_format": 'Of all f32 inputs, how you store them: "f32", "f16" or "bf16", of images also with ",nhwc": then '
                    'they are [N, H, W, C]',
    "output_format": "Of all f32 outputs, likewise",
    "description": "What kernels are chosen for, if not for the device as it is: plan_summary() of devices that are not there",
    "input_shapes": "Of inputs that leave extents open",
    "outputs": "Names of the nodes that are the outputs; the graph's if it is not given",
    "constants": "Values of inputs, which are then part of the plan",
    "capacity": "The most that numbers may be which a run computes and sizes are made of, or how many elements "
                "there may be where a run decides how many",
}
"""What help() says of each."""
CompileOptions.__doc__ = "\n".join((f"{CompileOptions.__doc__}\n", *(f"{name}: {text}" for name, text in EXPLAINED.items())))

DEFAULTS: CompileOptions = {
    "device": "auto", "batch": 1, "precision": "fp32", "linear_weights": "f32", "threads": 0, "algorithm": "", "fuse": True,
    "keep_all": False, "workspace_limit": 256 << 20, "batch_invariant": False, "capture": True, "photos": None,
    "input_format": "f32", "output_format": "f32", "input_shapes": {}, "outputs": (), "constants": {}, "capacity": {}}
"""What is not given, but for `description`: that of the device."""
