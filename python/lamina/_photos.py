"""Photographs by the folder: decoded on threads, run in batches."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _core
from ._core import Error, Plan, Preprocess

if TYPE_CHECKING:
    from ._model import Model

Pixels = np.ndarray[Any, np.dtype[Any]]
Photo = str | os.PathLike[str] | bytes | Pixels
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tga", ".pgm", ".ppm"}


class Classified(NamedTuple):
    """What became of one photograph."""

    photo: Photo
    classes: list[tuple[str, float]]
    """The most probable first; empty if there is an error"""
    error: str | None = None


def photos_of(folder: Path) -> list[str]:
    """The photographs of a folder, by their names, sorted. Raises Error if there are none."""
    found = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not found:
        raise Error(f"{folder}: no photographs in this folder")
    return found


class Classifier:
    """A plan for photographs, with the classes' names. One thread at a time."""

    def __init__(self, model: Model, batch: int, options: dict[str, Any]) -> None:
        self.preprocess = preprocess_of(model)
        self.labels = model.labels
        if "?" in model.input_shapes[0]:
            side = self.preprocess.crop
            options.setdefault("input_shapes", {model.input_names[0]: (batch, 3, side, side)})
        self.plan: Plan = model.graph.compile(self.preprocess, photos=True, batch=batch, **options)
        self.probabilities = model.graph.output_op.lower() == "softmax"
        shape = self.plan.output_shapes[0]
        if len(self.plan.output_shapes) != 1 or len(shape) != 2:
            raise Error(f"classify: expected a model whose one output is scores [N, classes], got {self.plan!r}")
        self.batch: int = self.plan.input_shapes[0][0]

    def read(self, photo: Photo, upright: bool = True) -> Pixels:
        """The picture that the network sees, uint8 [crop, crop, 3]."""
        return _core.resize_and_crop(photo, self.preprocess, upright=upright)

    def classes(self, pixels: Sequence[Pixels], top: int) -> list[list[tuple[str, float]]]:
        """Of at most a batch of pictures."""
        side = self.preprocess.crop
        rows = np.empty((len(pixels), side, side, 3), np.uint8)
        for row, picture in zip(rows, pixels):
            row[:] = picture
        if len(rows) < self.batch and not self.plan.batched:
            rows = np.concatenate([rows, np.zeros((self.batch - len(rows), side, side, 3), np.uint8)])
        scores = np.asarray(self.plan(rows))[:len(pixels)]
        named = _core.top_classes(scores, top, self.probabilities)
        return [[(self.name(index), score) for index, score in row] for row in named]

    def name(self, index: int) -> str:
        return self.labels[index] if index < len(self.labels) else f"class {index}"


class Classifiers:
    """A model's classifiers that nobody uses at the moment, to be used again."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.idle: dict[str, list[Classifier]] = {}

    def classify(self, photos: Any, top: int, batch: int, upright: bool, progress: bool,
                 options: dict[str, Any]) -> list[tuple[str, float]] | list[Classified]:
        single = isinstance(photos, (str, bytes, os.PathLike)) or hasattr(photos, "__array_interface__")
        folder = single and isinstance(photos, (str, os.PathLike)) and Path(photos).is_dir()
        work = photos_of(Path(photos)) if folder else [photos] if single else list(photos)
        batch = max(1, min(batch, len(work)))
        key = repr((batch, sorted(options.items(), key=lambda item: item[0])))
        idle = self.idle.setdefault(key, [])
        classifier = idle.pop() if idle else Classifier(self.model, batch, dict(options))
        try:
            if single and not folder:
                return classifier.classes([classifier.read(photos, upright)], top)[0]
            return list(shown(run(classifier, work, top, upright), len(work), progress))
        finally:
            idle.append(classifier)


def run(classifier: Classifier, photos: Sequence[Photo], top: int, upright: bool) -> Iterator[Classified]:
    """In order; photographs are decoded on all cores, at most two batches ahead."""
    batch, rest = classifier.batch, iter(photos)
    with ThreadPoolExecutor(os.cpu_count()) as decoders:
        pending: deque[tuple[Photo, Future[Pixels]]] = deque()

        def begin(count: int) -> None:
            for _, photo in zip(range(count), rest):
                pending.append((photo, decoders.submit(classifier.read, photo, upright)))

        begin(3 * batch)
        while pending:
            taken = [pending.popleft() for _ in range(min(batch, len(pending)))]
            outcomes: list[tuple[Photo, Pixels | None, str | None]] = []
            for photo, future in taken:
                try:
                    outcomes.append((photo, future.result(), None))
                except Error as error:
                    outcomes.append((photo, None, str(error)))
            begin(batch)
            readable = [pixels for _, pixels, _ in outcomes if pixels is not None]
            classes = iter(classifier.classes(readable, top) if readable else [])
            for photo, pixels, why in outcomes:
                yield Classified(photo, [] if pixels is None else next(classes), why)


def shown(rows: Iterable[Classified], total: int, progress: bool) -> Iterator[Classified]:
    if not progress:
        yield from rows
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        for done, row in enumerate(rows, 1):
            print(f"\r{done} of {total} photographs", end="" if done < total else "\n", flush=True)
            yield row
        return
    yield from tqdm(rows, total=total, unit="photo")


def preprocess_of(model: Model) -> Preprocess:
    """Raises Error unless the model takes photographs."""
    if model.preprocess is None:
        raise Error("classify: the model does not say how a photograph becomes its input; set model.preprocess, e.g. to "
                    "lamina.torchvision_imagenet()")
    side = model.preprocess.crop
    shapes = model.input_shapes
    wanted = ((3, "?"), (side, "?"), (side, "?"))
    if len(shapes) != 1 or len(shapes[0]) != 4 or any(e not in w for e, w in zip(shapes[0][1:], wanted)):
        raise Error(f"classify: expected a model with one input [N, 3, {side}, {side}] for its photographs, got {shapes}")
    return model.preprocess
