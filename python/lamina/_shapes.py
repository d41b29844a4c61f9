"""Shapes of inputs and outputs that leave extents open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._core import Error, Graph


def is_open(shape: tuple[int | str, ...]) -> bool:
    """Whether the shape of an input leaves extents open, or their number."""
    return "?" in shape or "..." in shape


def text_of(shape: Sequence[int | str]) -> str:
    """As messages have it: [N, 3, 224, 224]."""
    return f"[{', '.join(map(str, shape))}]"


def outputs_of(graph: Graph, options: Mapping[str, Any]) -> list[tuple[str, tuple[int | str, ...], str]]:
    """Each output's name, shape and type, by the shapes alone of inputs of two sizes: what is not the same in both is "?", and
    the number of images "N". None of them where such inputs do not fit."""
    counts = any("N" in shape for shape in graph.input_shapes)
    found = []
    for images, side in ((2, 64), (3, 96)):
        asked: dict[str, Any] = {"batch": images} if counts else {}
        asked["input_shapes"] = {name: [{"N": images, "?": side}.get(str(extent), extent) for extent in shape]
                                 for name, shape in zip(graph.input_names, graph.input_shapes) if "?" in shape}
        try:
            found.append(graph.output_ports(**{**options, **asked}))
        except Error:
            return []
        if not counts and not asked["input_shapes"]:
            break
    ports = []
    for (name, shape, dtype), (_, other, _) in zip(found[0], found[-1]):
        extents = ["?" if one is None or one != two else one for one, two in zip(shape, other)]
        images_first = (shape[:1], other[:1]) == ((2,), (3,))
        ports.append((name, ("N" if images_first else extents[0], *extents[1:]) if extents else (), dtype))
    return ports
