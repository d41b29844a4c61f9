"""Networks in eight bits, made of those in floats."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np

from . import _core
from ._core import Error, Unsupported
from ._html import brief
from ._model import Model, load
from ._network import Network
from ._shapes import is_open
from ._photos import Photo, Pixels, listed, preprocess_of
from ._signatures import with_options


class QuantizedLayer(NamedTuple):
    """What became of a convolution, or of a product with constant weights."""

    name: str
    op: str
    error: float
    """Of the outputs, were this layer alone in eight bits: |y8 - y| / |y|"""
    quantized: bool
    why: str
    """It stays in floats; empty if it does not"""


class Quantized(NamedTuple):
    """A model that multiplies in eight bits, and what it cost."""

    model: Model
    layers: list[QuantizedLayer]
    error: float
    """|y8 - y| / |y| of the outputs on what was held back"""
    agreement: float
    """The share of `compared` whose best class is the same; 1 of none"""
    compared: int
    """Rows of scores [N, classes] in what was held back; 0 where the outputs are others"""
    held_back: int
    """Every fourth photograph, or input; the only one served for both"""
    equalized: int
    """Groups of channels that were brought to ranges alike"""
    unread: list[tuple[Photo, str]]
    """Photographs that cannot be read, which were passed over, and why"""

    def __repr__(self) -> str:
        return brief(self)


@with_options
def quantize(model: Network | str | os.PathLike[str], photos: Photo | Iterable[Photo], out: str | os.PathLike[str] | None = None, *,
             max_error: float = math.inf, calibration: Literal["minmax", "percentile"] = "minmax", equalize: bool = True,
             correct_bias: bool = True, force: bool = False, upright: bool = True,
             progress: Callable[[int, int], object] | None = None, **options: Any) -> Quantized:
    """Makes of a model one that multiplies in eight bits, as the command `lamina quantize` does.

    model: a Model, or its file. photos: such as the model will see, some hundred: a folder, or paths, bytes of files,
    images of Pillow and pixels uint8 [H, W, 3]; or inputs as they occur, float32 [n, ...], of which every row is a sample.
    out: the file to write, .safetensors or .onnx. max_error: what the outputs may be off by on those held back; layers stay
    in floats until it holds. calibration: what the 256 levels of a value reach over. equalize brings channels to ranges
    alike, correct_bias takes off what rounding the weights adds. A model whose outputs are off by as much as they are large is
    written to `out` with force=True only. progress is told how many models were measured, of
    how many at most. The other keywords are those of Model.compile: how the models are run that are measured.
    """
    make = getattr(_core, "quantize", None)
    if make is None:
        raise Unsupported("quantize: this Lamina was built without it (LAMINA_QUANTIZE=OFF)")
    if not isinstance(model, Network):
        model = load(model)
    _core.require_quantizable(model.graph, model.labels, out or "")  # what cannot be is said before a photograph is read
    samples, unread = samples_of(model, listed(photos), upright)
    if samples and is_open(model.input_shapes[0]):
        options.setdefault("input_shapes", {model.input_names[0]: samples[0].shape})
    file, layers, error, agreement, compared, held_back, equalized = make(
        model.graph, model.preprocess, model.labels, samples, calibration, max_error, equalize, correct_bias, progress, **options)
    made = Model(file.graph, file.preprocess, file.labels, metadata=model.metadata)
    if out is not None and not error < 1 and not force:
        raise Error(f"quantize: in eight bits the outputs are off by {error:.3g} times what they are: nothing was written; "
                    "max_error leaves layers in floats, force=True writes it nevertheless")
    if out is not None:
        made.save(out)
    return Quantized(made, [QuantizedLayer(*layer) for layer in layers], error, agreement, compared, held_back, equalized, unread)


def samples_of(model: Network, photos: Iterable[Any], upright: bool) -> tuple[list[Pixels], list[tuple[Photo, str]]]:
    """Inputs of as many rows as the model takes, and the photographs of which none could be made."""
    batch = model.input_shapes[0][0] if model.input_shapes and model.input_shapes[0] else 1
    height = 1 if isinstance(batch, str) else batch

    def rows_of(photo: Any) -> Pixels | Error:
        if isinstance(photo, np.ndarray) and photo.dtype != np.uint8:
            return photo
        settings = preprocess_of(model, "quantize")
        try:
            return _core.as_input(_core.preprocess(photo, settings, upright=upright), model.graph)
        except Error as error:
            return error

    work = list(photos)
    rows: list[Pixels] = []
    unread: list[tuple[Photo, str]] = []
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for photo, found in zip(work, threads.map(rows_of, work)):
            if isinstance(found, Error):
                unread.append((photo, str(found)))
            else:
                rows.extend(found[i:i + 1] for i in range(len(found)))
    if unread and not rows:
        raise Error(f"quantize: no photograph could be read: {unread[0][1]}")
    # What is left of the last batch shows its first photograph again.
    parts = [rows[i:i + height] for i in range(0, len(rows), height)]
    return [part[0] if height == 1 else np.concatenate((part + part[:1] * height)[:height]) for part in parts], unread
