"""Photographs by Ray Data: classes for `Dataset.map_batches`, opened once for each actor. Ray itself is not imported.

    photos = ray.data.read_binary_files(folder, include_paths=True)
    pictures = photos.map_batches(lamina.ray.Decoder, fn_constructor_args=(model,), concurrency=8)
    rows = pictures.map_batches(lamina.ray.Classifier, fn_constructor_args=(model,), concurrency=2, num_gpus=1)
    rows.write_parquet(out)          # path, classes, scores, error

Where all machines see the files, the paths alone need travel, and each actor decodes for itself (docs/inside/scale.md):

    rows = ray.data.read_parquet(paths).map_batches(
        lamina.ray.Classifier, fn_constructor_args=(model,), fn_constructor_kwargs={"decoders": 16}, batch_size=1024,
        concurrency=2, num_gpus=1, num_cpus=16)

examples/ray_classify.py is the whole program.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ._core import Error, resize_and_crop
from ._model import Model, arch, load
from ._photos import Classifier as _Classifier
from ._photos import preprocess_of, run
from ._signatures import with_options
from ._sources import Path

if TYPE_CHECKING:
    import pyarrow

Source = Model | Path | tuple[str, Path]
"""A model file, or a network of arch_names() with its weights. A Model travels between processes with all its weights, a path does not."""


def _open(model: Source) -> Model:
    if isinstance(model, Model):
        return model
    return arch(*model) if isinstance(model, tuple) else load(model)


class Decoder:
    """Decodes, resizes and crops: from the columns `path` and `bytes` to `path`, `pixels` and `error`.

    pixels: uint8 [N, crop, width, 3]; black where a photograph cannot be read, and `error` says why ("" otherwise).
    """

    def __init__(self, model: Source, *, upright: bool = True) -> None:
        self.settings = preprocess_of(_open(model))
        self.upright = upright

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        pixels = np.zeros((len(batch["bytes"]), self.settings.crop, self.settings.width, 3), np.uint8)
        errors = []
        for row, file in zip(pixels, batch["bytes"]):
            try:
                resize_and_crop(bytes(file), self.settings, row, upright=self.upright)
                errors.append("")
            except Error as error:
                errors.append(str(error))
        return {"path": batch["path"], "pixels": pixels, "error": np.array(errors, object)}


class Classifier:
    """Classifies: from what Decoder gives, or from `path` with or without `bytes`, to a table of path, classes, scores
    and error.

    classes: the `top` most probable, the first the most; empty where there is an error. A photograph that cannot be
    read is a row with an error, never a failed job. One thread per actor for the model, and one more to decode,
    unless `threads` and `decoders` say otherwise; the other options are those of Model.compile.
    """

    @with_options
    def __init__(self, model: Source, *, top: int = 5, batch: int = 32, threads: int = 1, decoders: int = 1,
                 upright: bool = True, **options: Any) -> None:
        self.classifier = _Classifier(_open(model), batch, {"threads": threads, **options})
        self.top, self.decoders, self.upright = top, decoders, upright

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> pyarrow.Table:
        import pyarrow as pa  # Ray Data brings it

        if "pixels" in batch:
            found = self.of_pixels(batch["pixels"])
            errors = [error or None for error in batch["error"]]
        else:
            photos = batch["bytes"] if "bytes" in batch else batch["path"]
            rows = list(run(self.classifier, photos.tolist(), self.top, self.upright, self.decoders))
            found, errors = [row.classes for row in rows], [row.error for row in rows]
        found = [[] if error else classes for classes, error in zip(found, errors)]
        return pa.table({
            "path": pa.array([os.fspath(path) for path in batch["path"]], pa.string()),
            "classes": pa.array([[name for name, _ in row] for row in found], pa.list_(pa.string())),
            "scores": pa.array([[score for _, score in row] for row in found], pa.list_(pa.float32())),
            "error": pa.array(errors, pa.string()),
        })

    def of_pixels(self, pixels: np.ndarray[Any, Any]) -> list[list[tuple[str, float]]]:
        found = []
        for begin in range(0, len(pixels), self.classifier.batch):
            part = pixels[begin:begin + self.classifier.batch]
            rows = self.classifier.pixels()
            rows[:len(part)] = list(part)
            found += self.classifier.classes(self.classifier.pool(rows)[:len(part)], self.top)
        return found
