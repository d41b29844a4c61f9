"""Detectors: boxes, masks and points out of photographs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

import numpy as np

from . import _core
from ._core import Error, Stop, Unsupported, nearest_text
from ._html import Bar, brief, table
from ._network import Network
from ._photos import Photo, Picture, Pixels, is_one, listed
from ._signatures import options_but, with_options
from ._sources import OpenFile, Path, Source, model_file

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import CompileOptions

Array = np.ndarray[Any, np.dtype[Any]]


class Detection(NamedTuple):
    """A thing in a photograph."""

    box: Array
    """float32 [4]: x1, y1, x2, y2 in pixels of the photograph"""
    score: float
    label: int
    """Its class"""
    name: str
    """Of its class"""
    points: Array | None = None
    """float32 [points, 3]: x, y, score, of a pose model"""
    mask: Array | None = None
    """uint8 [height, width], 0 or 1, of a segmentation model"""
    turned: Array | None = None
    """float32 [5]: middle x and y, width, height, angle in radians, of a model of turned boxes"""

    def __repr__(self) -> str:
        return brief(self)


class Detections(Sequence[Detection]):
    """What was found in a photograph, best score first: a sequence of Detection, which has all of them as arrays too.

    boxes: float32 [things, 4], x1, y1, x2, y2 in pixels of the photograph. scores: float32 [things]. classes: int32
    [things], and names of them. points: float32 [things, points, 3], x, y, score, of a pose model. masks: uint8
    [things, height, width], 0 or 1, of a segmentation model. turned: float32 [things, 5], middle x and y, width, height,
    angle in radians, of a model of turned boxes. None is what the model has not.
    """

    __slots__ = ("boxes", "scores", "classes", "names", "points", "masks", "turned")

    def __init__(self, boxes: Array, scores: Array, classes: Array, names: Sequence[str], points: Array | None = None,
                 masks: Array | None = None, turned: Array | None = None) -> None:
        self.boxes, self.scores, self.classes, self.names = boxes, scores, classes, list(names)
        self.points, self.masks, self.turned = points, masks, turned

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def __getitem__(self, at: int) -> Detection: ...

    @overload
    def __getitem__(self, at: slice) -> Detections: ...

    def __getitem__(self, at: int | slice) -> Detection | Detections:
        """A thing, or some of them."""
        rest = (each if each is None else each[at] for each in (self.points, self.masks, self.turned))
        if isinstance(at, slice):
            return Detections(self.boxes[at], self.scores[at], self.classes[at], self.names[at], *rest)
        return Detection(self.boxes[at], float(self.scores[at]), int(self.classes[at]), self.names[at], *rest)

    def __repr__(self) -> str:
        return f"<lamina.Detections: {', '.join(f'{each.name} {each.score:.2f}' for each in self[:9]) or 'nothing'}{', ...' * (len(self) > 9)}>"

    def _repr_html_(self) -> str:
        return table(("thing", "score", "box"), ((each.name, Bar(each.score), [round(float(side), 1) for side in each.box]) for each in self))


class Detected(NamedTuple):
    """What became of one photograph of several."""

    photo: Photo
    found: Detections | None
    """None if there is an error"""
    error: str | None = None

    def __repr__(self) -> str:
        return brief(self)


class Detector:
    """Finds things in photographs with an export of YOLO (v5 to 26), RT-DETR or torchvision's, as its own Python does.

    source: the .onnx file, or a model file made of it (a path, its bytes, or an open file), or a Model. device: "auto",
    "cpu", "cuda:1", several as "cuda:0,cuda:2", or "all". size: pixels of both sides where the model leaves them open; 0: its
    imgsz, or 640. labels: the classes' names, where the file's are not wanted. The other keywords are those of
    Model.compile. Any number of threads may use one. It can be copied and pickled, as what it was made of: a path is opened again.
    """

    @options_but("photos", "output_format", "outputs")
    def __init__(self, source: Source | Network, device: str = "auto", *,  # type: ignore[misc]  # of options too, but here of several
                 size: int = 0, labels: Sequence[str] = (),
                 **options: Unpack[CompileOptions]) -> None:
        make = getattr(_core, "make_detector", None)
        if make is None:
            raise Unsupported("detector: this Lamina was built without them (LAMINA_DETECT=OFF)")
        given = source if isinstance(source, Network) else model_file(source)
        self._made = given, device, {"size": size, "labels": list(labels), **options}
        self._detector = make(given, device, size, list(labels), **options)
        self.task: str = self._detector.task
        self.names: list[str] = self._detector.names
        self.input_shape: tuple[int, ...] = self._detector.input_shape

    @overload
    def __call__(self, photo: bytes | bytearray | memoryview | OpenFile | Picture, confidence: float = 0.25, iou: float = 0.45, *,
                 classes: int | str | Sequence[int | str] = (), across_classes: bool = False, most: int = 300, masks: bool = True,
                 upright: bool = True, stop: Stop | None = None, time: float | None = None) -> Detections: ...

    @overload  # a path may be a folder's, an array several photographs: which of the two it is shows when it runs
    def __call__(self, photo: Path | Pixels, confidence: float = 0.25, iou: float = 0.45, *, classes: int | str | Sequence[int | str] = (),
                 across_classes: bool = False, most: int = 300, masks: bool = True, upright: bool = True,
                 stop: Stop | None = None, time: float | None = None) -> Any: ...

    @overload
    def __call__(self, photo: Iterable[Photo], confidence: float = 0.25, iou: float = 0.45, *, classes: int | str | Sequence[int | str] = (),
                 across_classes: bool = False, most: int = 300, masks: bool = True, upright: bool = True,
                 stop: Stop | None = None, time: float | None = None) -> list[Detected]: ...

    @with_options
    def __call__(self, photo: Any, confidence: float = 0.25, iou: float = 0.45, *, classes: int | str | Sequence[int | str] = (),
                 across_classes: bool = False, most: int = 300, masks: bool = True,
                 upright: bool = True, stop: Stop | None = None, time: float | None = None) -> Detections | list[Detected]:
        """What is in a photograph: a path, the bytes of a file, an open file, an image of Pillow, or pixels uint8 [H, W, 3].
        A folder, or several photographs, give a list of Detected, in order; one that cannot be read has an `error` there.

        confidence: the score that a thing has to exceed. iou: how far boxes of a class may overlap, or with
        across_classes of any. classes: those wanted, by number or name, one or several. most: things of a photograph. upright turns it as
        its EXIF data say. stop: once another thread requests it, Stopped is raised; time: so many seconds after which that
        happens, of each photograph, once it is read. Ctrl-C ends it too.
        """
        wanted = [self._number(kind) for kind in ([classes] if isinstance(classes, (str, int, np.integer)) else classes)]

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
        if not isinstance(kind, (str, SupportsIndex)):
            raise TypeError(f"classes: expected names or numbers of classes, got {kind!r}")
        if not isinstance(kind, str):
            return kind.__index__()
        lower = [name.lower() for name in self.names]
        if kind.lower() not in lower:
            raise Error(f"classes: expected a class of the model, got {kind!r}{nearest_text(kind, self.names)}")
        return self.names.index(kind) if kind in self.names else lower.index(kind.lower())

    def __reduce__(self) -> tuple[Any, ...]:
        given, device, options = self._made
        return partial(Detector, **options), (given, device)

    def __repr__(self) -> str:
        return f"<lamina.Detector of {len(self.names) or 'unnamed'} classes, {self.task}, input {self.input_shape}>"
