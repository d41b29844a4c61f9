"""Photographs by Ray Data: classes for `Dataset.map_batches`, opened once for each actor. Ray itself is not imported.

    photos = ray.data.read_binary_files(folder, include_paths=True)
    pictures = photos.map_batches(lamina.ray.Decoder, fn_constructor_args=(model,), concurrency=8)
    rows = pictures.map_batches(lamina.ray.Classifier, fn_constructor_args=(model,), concurrency=2, num_gpus=1)
    rows.write_parquet(out)          # path, classes, scores, error

examples/ray_classify.py is the whole program.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ._core import Error, resize_and_crop
from ._model import Model, Path, arch, load
from ._photos import Classifier as _Classifier
from ._photos import preprocess_of

if TYPE_CHECKING:
    import pyarrow

Source = Model | Path | tuple[str, Path]
"""A model file, or a network of arch_names() with its weights. (A Model itself does not travel between processes.)"""


def _open(model: Source) -> Model:
    if isinstance(model, Model):
        return model
    return arch(*model) if isinstance(model, tuple) else load(model)


class Decoder:
    """Decodes, resizes and crops: from the columns `path` and `bytes` to `path`, `pixels` and `error`.

    pixels: uint8 [N, crop, crop, 3]; black where a photograph cannot be read, and `error` says why ("" otherwise).
    """

    def __init__(self, model: Source, *, upright: bool = True) -> None:
        self.settings = preprocess_of(_open(model))
        self.upright = upright

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
        side = self.settings.crop
        pixels = np.zeros((len(batch["bytes"]), side, side, 3), np.uint8)
        errors = []
        for row, file in zip(pixels, batch["bytes"]):
            try:
                resize_and_crop(bytes(file), self.settings, row, upright=self.upright)
                errors.append("")
            except Error as error:
                errors.append(str(error))
        return {"path": batch["path"], "pixels": pixels, "error": np.array(errors, object)}


class Classifier:
    """Classifies: from what Decoder gives, or from `path` and `bytes`, to a table of path, classes, scores and error.

    classes: the `top` most probable, the first the most; empty where there is an error. A photograph that cannot be
    read is a row with an error, never a failed job. One thread per actor, unless `threads` says otherwise; the other
    options are those of Model.compile.
    """

    def __init__(self, model: Source, *, top: int = 5, batch: int = 32, threads: int = 1, **options: Any) -> None:
        opened = _open(model)
        self.decoder = Decoder(opened)
        self.classifier = _Classifier(opened, batch, {"threads": threads, **options})
        self.top = top

    def __call__(self, batch: dict[str, np.ndarray[Any, Any]]) -> pyarrow.Table:
        import pyarrow as pa  # Ray Data brings it

        rows = batch if "pixels" in batch else self.decoder(batch)
        good = [i for i, error in enumerate(rows["error"]) if not error]
        found: list[list[tuple[str, float]]] = [[] for _ in rows["error"]]
        for begin in range(0, len(good), self.classifier.batch):
            part = good[begin:begin + self.classifier.batch]
            for i, classes in zip(part, self.classifier.classes([rows["pixels"][i] for i in part], self.top)):
                found[i] = classes
        return pa.table({
            "path": pa.array([os.fspath(path) for path in rows["path"]], pa.string()),
            "classes": pa.array([[name for name, _ in row] for row in found], pa.list_(pa.string())),
            "scores": pa.array([[score for _, score in row] for row in found], pa.list_(pa.float32())),
            "error": pa.array([error or None for error in rows["error"]], pa.string()),
        })
