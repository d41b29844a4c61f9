"""Detectors: boxes, masks and points out of photographs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from . import _core
from ._core import Error, Stop
from ._html import Bar, table
from ._photos import Photo, is_one, listed
from ._signatures import options_but
from ._sources import Source, file_of

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import CompileOptions

Array = np.ndarray[Any, np.dtype[Any]]


class _Fields(NamedTuple):

    boxes: Array
    """float32 [things, 4]: x1, y1, x2, y2 in pixels of the photograph"""
    scores: Array
    """float32 [things]"""
    classes: Array
    """int32 [things]"""
    names: list[str]
    """Of each thing's class"""
    points: Array | None = None
    """float32 [things, points, 3]: x, y, score, of a pose model"""
    masks: Array | None = None
    """uint8 [things, height, width], 0 or 1, of a segmentation model"""
    turned: Array | None = None
    """float32 [things, 5]: middle x and y, width, height, angle in radians, of a model of turned boxes"""


class Detections(_Fields):
    """What was found in a photograph, best score first: boxes, scores, classes, names, points, masks, turned. Its length is
    the number of things; it unpacks into these fields."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]  # NamedTuple's own asks for the length
        return cls(*iterable)

    def _repr_html_(self) -> str:
        boxes = ([round(float(side), 1) for side in box] for box in self.boxes)
        return table(("thing", "score", "box"), ((name, Bar(float(score)), box) for name, score, box in zip(self.names, self.scores, boxes)))


class Detected(NamedTuple):
    """What became of one photograph of several."""

    photo: Photo
    found: Detections | None
    """None if there is an error"""
    error: str | None = None


class Detector:
    """Finds things in photographs with an export of YOLO (v5 to 26), RT-DETR or torchvision's, as its own Python does.

    source: the .onnx file, or a model file made of it; a path, its bytes, or an open file. devices: "auto", "cpu", "cuda:1", "cuda:0,cuda:2", or "all". size: pixels
    of both sides where the model leaves them open; 0: its imgsz, or 640. labels: the classes' names, where the file's are
    not wanted. The other keywords are those of Model.compile. Any number of threads may use one.
    """

    @options_but("device", "photos", "output_format", "outputs")
    def __init__(self, source: Source, devices: str = "auto", *, size: int = 0, labels: Sequence[str] = (),
                 **options: Unpack[CompileOptions]) -> None:
        make = getattr(_core, "make_detector", None)
        if make is None:
            raise Error("detector: this Lamina was built without them (LAMINA_DETECT=OFF)")
        self._detector = make(file_of(source), devices, size, list(labels), **options)
        self.task: str = self._detector.task
        self.names: list[str] = self._detector.names
        self.input_shape: tuple[int, ...] = self._detector.input_shape

    @overload
    def __call__(self, photo: Photo, confidence: float = 0.25,  # type: ignore[overload-overlap]  # a path is one, not several
                 iou: float = 0.45, *, classes: Sequence[int | str] = (),
                 across_classes: bool = False, most: int = 300, masks: bool = True, upright: bool = True,
                 stop: Stop | None = None, time: float | None = None) -> Detections: ...

    @overload
    def __call__(self, photo: Iterable[Photo], confidence: float = 0.25, iou: float = 0.45, *, classes: Sequence[int | str] = (),
                 across_classes: bool = False, most: int = 300, masks: bool = True, upright: bool = True,
                 stop: Stop | None = None, time: float | None = None) -> list[Detected]: ...

    def __call__(self, photo: Any, confidence: float = 0.25, iou: float = 0.45, *, classes: Sequence[int | str] = (),
                 across_classes: bool = False, most: int = 300, masks: bool = True,
                 upright: bool = True, stop: Stop | None = None, time: float | None = None) -> Detections | list[Detected]:
        """What is in a photograph: a path, the bytes of a file, an open file, an image of Pillow, or pixels uint8 [H, W, 3].
        A folder, or several photographs, give a list of Detected, in order; one that cannot be read has an `error` there.

        confidence: the score that a thing has to exceed. iou: how far boxes of a class may overlap, or with
        across_classes of any. classes: those wanted, by number or name. most: things of a photograph. upright turns it as
        its EXIF data say. stop: once another thread requests it, Stopped is raised; time: so many seconds after which that
        happens, of each photograph, once it is read. Ctrl-C ends it too.
        """
        wanted = [self._number(kind) for kind in classes]

        def found_in(pixels: Any) -> Detections:
            boxes, scores, labels, *rest = self._detector.detect(pixels, confidence, iou, wanted, across_classes, most, masks, upright, stop, time)
            return Detections(boxes, scores, labels, [self._detector.name(int(label)) for label in labels], *rest)

        def row_of(each: Photo) -> Detected:
            try:
                pixels = _core.read_image(each, upright=upright)
            except Error as error:
                return Detected(each, None, str(error))
            return Detected(each, found_in(pixels))

        return found_in(photo) if is_one(photo) else [row_of(each) for each in listed(photo)]

    def _number(self, kind: int | str) -> int:
        if not isinstance(kind, str):
            return kind
        lower = [name.lower() for name in self.names]
        if kind.lower() not in lower:
            raise Error(f"classes: expected a class of the model, got {kind!r}")
        return self.names.index(kind) if kind in self.names else lower.index(kind.lower())

    def __repr__(self) -> str:
        return f"<lamina.Detector of {len(self.names) or 'unnamed'} classes, {self.task}, input {self.input_shape}>"
