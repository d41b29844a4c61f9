"""Photographs by the folder: decoded on threads, run in batches."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from . import _core
from ._core import Error, Preprocess
from ._html import Bar, Classes, brief, table
from ._idle import Idle
from ._network import Network
from ._pool import Pool
from ._shapes import is_open, text_of
from ._sources import OpenFile

Pixels = np.ndarray[Any, np.dtype[Any]]


class Picture(Protocol):
    """A PIL.Image.Image."""

    def convert(self, mode: str, /) -> Any: ...

    def tobytes(self) -> bytes: ...


Photo = str | os.PathLike[str] | bytes | bytearray | memoryview | OpenFile | Picture | Pixels
"""Everything that takes a photograph takes each of these: a path, the bytes of a file, an open file, an image of Pillow,
pixels uint8 [H, W, 3] or [3, H, W], grey, or with alpha, of any library and on a GPU too. What is transparent is laid on white"""
SUFFIXES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tga", ".pgm", ".ppm", ".webp", ".heic", ".heif", ".avif", ".tif",
            ".tiff"}


class Classified(NamedTuple):
    """What became of one photograph."""

    photo: Photo
    classes: list[tuple[str, float]]
    """The most probable first; empty if there is an error"""
    error: str | None = None

    def __repr__(self) -> str:
        return brief(self)


class Photographs(list[Classified]):
    """Those of a folder, or several, in order."""

    def _repr_html_(self) -> str:
        return table(("photo", "class", "score"), (
            (row.photo if isinstance(row.photo, (str, os.PathLike)) else f"photograph {number}", row.error or row.classes[0][0],
             "" if row.error else Bar(row.classes[0][1])) for number, row in enumerate(self, 1)))


def photos_of(folder: Path) -> list[str]:
    """The photographs of a folder, by their names, sorted. Raises Error if there are none."""
    found = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not found:
        below = next((path for path in folder.iterdir() if path.is_dir()), None)
        hint = "" if below is None else f'; those of folders in it are a list: list(pathlib.Path("{folder}").rglob("*.jpg"))'
        raise Error(f"{folder}: no photographs in this folder{hint}")
    return found


def is_one(photos: Any) -> bool:
    """Whether it is one photograph, not several nor a folder of them."""
    if isinstance(photos, (str, os.PathLike)):
        return not os.path.isdir(photos)  # as which a Path has the empty text
    if getattr(getattr(photos, "dtype", None), "kind", "") in ("O", "S", "U"):  # an array of paths, a column of them
        return False
    several = len(getattr(photos, "shape", ())) == 4 and str(photos.dtype).endswith("uint8")
    return _core.is_photo(photos) and not several


def listed(photos: Any) -> list[Any]:
    """The photographs: of one, of a folder, or of whatever gives several, one after the other."""
    if is_one(photos):
        return [photos]
    if isinstance(photos, (str, os.PathLike)):
        return photos_of(Path(photos))
    if isinstance(photos, Mapping) or not isinstance(photos, Iterable):
        raise TypeError(f"photos: expected a photograph, a folder or several photographs, got {type(photos).__name__}")
    return list(photos)


class Classifier:
    """Plans for photographs on one device or several, with the classes' names. One thread at a time."""

    def __init__(self, model: Network, batch: int, options: dict[str, Any]) -> None:
        self.preprocess = preprocess_of(model)
        self.model = model
        photographed = Network(_core.for_photographs(model.graph), self.preprocess, kinds=1)
        if photographed.input_shapes[0][0] != "N":
            batch = 1  # the file's own, whatever it is
        if is_open(photographed.input_shapes[0]):
            options.setdefault("input_shapes", {model.input_names[0]: (batch, 3, self.preprocess.crop, self.preprocess.width)})
        self.pool = Pool(photographed, options.pop("device", "auto"), photos=True, batch=batch, **options)
        shapes = self.pool.output_shapes
        if len(shapes) != 1 or len(shapes[0]) < 2 or sum(extent != 1 for extent in shapes[0][1:]) > 1:
            raise Error(f"classify: expected a model whose one output is scores [N, classes], got {shapes}")
        numbers = math.prod(shapes[0][1:])
        self.count = len(_core.top_classes(model.graph, np.zeros((1, numbers), np.float32), numbers + 1)[0])  # 2 of a sigmoid
        self.check_labels()
        self.batch: int = self.pool.input_shapes[0][0]

    def check_labels(self) -> None:
        """Raises Error unless the model names all of its classes, or none."""
        if self.model.labels and len(self.model.labels) != self.count:
            raise Error(f"classify: expected {self.count} labels, one for each class, got {len(self.model.labels)}")

    def pixels(self) -> Pixels:
        """Room for a batch of what the model sees, uint8 [batch, crop, width, 3]."""
        return np.zeros((self.batch, self.preprocess.crop, self.preprocess.width, 3), np.uint8)

    def read(self, photo: Photo, row: Pixels, upright: bool = True) -> None:
        _core.resize_and_crop(photo, self.preprocess, row, upright=upright)

    def classes(self, scores: Any, top: int) -> list[list[tuple[str, float]]]:
        """Of each row."""
        named = _core.top_classes(self.model.graph, np.asarray(scores), top)
        return [[(self.name(index), score) for index, score in row] for row in named]

    def name(self, index: int) -> str:
        return self.model.labels[index] if index < len(self.model.labels) else f"class {index}"


class Classifiers:
    """A model's classifiers that nobody uses at the moment, to be used again."""

    def __init__(self, model: Network) -> None:
        self.model = model
        self.idle: Idle[Classifier] = Idle()

    def classify(self, photos: Any, top: int, batch: int, upright: bool, progress: bool,
                 options: dict[str, Any]) -> list[tuple[str, float]] | list[Classified]:
        for name, value, least in (("top", top, 1), ("batch", batch, 1)):
            if not isinstance(value, (int, np.integer)):
                raise TypeError(f"{name}: expected a whole number, got {value!r}")
            if value < least:
                raise Error(f"{name}: expected {least} or more, got {value}")
        single = is_one(photos)
        work = listed(photos)
        batch = max(1, min(int(batch), len(work)))
        key = {**options, "batch": batch, "preprocess": self.model.preprocess}
        with self.idle.one(self.model.graph, key, lambda: Classifier(self.model, batch, dict(options))) as classifier:
            classifier.check_labels()  # they may be others than when it was made
            if single:
                rows = classifier.pixels()
                classifier.read(photos, rows[0], upright)
                return Classes(classifier.classes(classifier.pool(rows)[:1], top)[0])
            return Photographs(shown(run(classifier, work, top, upright), len(work), progress))


class Batch(NamedTuple):
    """Photographs that are being decoded into the rows of one array."""

    photos: list[Photo]
    rows: Pixels
    reading: list[Future[None]]

    def errors(self) -> list[str | None]:
        """Why those that cannot be read cannot, when all are decoded."""
        return [str(error) if isinstance(error := reading.exception(), Error) else reading.result()
                for reading in self.reading]


def run(classifier: Classifier, photos: Sequence[Photo], top: int, upright: bool,
        threads: int | None = None) -> Iterator[Classified]:
    """In order. Photographs are decoded on so many threads, or all cores, and the model runs on all its plans at the
    same time, a bounded number of batches ahead of what is taken."""
    plans, rest = len(classifier.pool.workers()), iter(photos)
    decoding: deque[Batch] = deque()
    running: deque[tuple[Batch, list[str | None], Future[Any]]] = deque()
    with ThreadPoolExecutor(threads or os.cpu_count()) as decoders:
        while True:
            while len(decoding) < 2 + plans and (part := list(islice(rest, classifier.batch))):
                rows = classifier.pixels()
                decoding.append(Batch(part, rows, [decoders.submit(classifier.read, photo, row, upright)
                                                   for photo, row in zip(part, rows)]))
            if decoding and len(running) <= plans:
                batch = decoding.popleft()
                running.append((batch, batch.errors(), classifier.pool.submit(batch.rows, copy=False)))
            elif running:
                batch, errors, scores = running.popleft()
                named = classifier.classes(scores.result()[:len(batch.photos)], top)
                for photo, classes, error in zip(batch.photos, named, errors):
                    yield Classified(photo, [] if error else classes, error)
            else:
                return


def shown(rows: Iterable[Classified], total: int, progress: bool) -> Iterator[Classified]:
    if not progress:
        yield from rows
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        for done, row in enumerate(rows, 1):
            print(f"\r{done} of {total} photograph{'s' * (total > 1)}", end="" if done < total else "\n", flush=True)
            yield row
        return
    yield from tqdm(rows, total=total, unit="photo")


def preprocess_of(model: Network, what: str = "classify") -> Preprocess:
    """Raises Error unless the model takes photographs."""
    if model.preprocess is None:
        raise Error(f"{what}: the model does not say how a photograph becomes its input; set model.preprocess: "
                    '"imagenet" is what most models want')
    height, width = model.preprocess.crop, model.preprocess.width
    shapes = _core.for_photographs(model.graph, model.preprocess).input_shapes if len(model.input_shapes) == 1 else ()
    wanted = ((3, "?"), (height, "?"), (width, "?"))
    if not shapes or len(shapes[0]) != 4 or any(e not in w for e, w in zip(shapes[0][1:], wanted)):
        raise Error(f"{what}: expected a model with one input [N, 3, {height}, {width}] for its photographs, got "
                    f"{', '.join(map(text_of, model.input_shapes))}; model.preprocess says {height} x {width}")
    return model.preprocess
