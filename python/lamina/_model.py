"""Models: a graph, and what is known of its photographs and classes."""

from __future__ import annotations

import copyreg
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, overload

from . import _core, _photos
from ._core import Error, Graph, Preprocess
from ._network import Network, imagenet_labels
from ._signatures import with_options
from ._sources import OpenFile, Path, Source, file_of, model_file


class Model(Network):
    """A network with its weights, and how a photograph becomes its input and a score a name.

    `graph` is the network, `preprocess` a Preprocess or None, `labels` the classes' names or an empty list, `warnings`
    what loading noticed, `metadata` the exporter's notes. Threads may share a Model. It can be copied, and pickled, with its weights.
    """

    __slots__ = ("_classifiers",)

    def __init__(self, graph: Graph, preprocess: Preprocess | None = None, labels: Sequence[str] = (),
                 warnings: Sequence[str] = (), metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(graph, preprocess, labels, warnings, metadata)
        self._classifiers = _photos.Classifiers(self)

    @overload
    def classify(self, photos: bytes | bytearray | memoryview | OpenFile | _photos.Picture, top: int = 5, *, batch: int = 16,
                 upright: bool = True, progress: bool = False, **options: Any) -> list[tuple[str, float]]: ...

    @overload  # a path may be a folder's, an array several photographs: which of the two lists it is shows when it runs
    def classify(self, photos: Path | _photos.Pixels, top: int = 5, *, batch: int = 16, upright: bool = True,
                 progress: bool = False, **options: Any) -> list[Any]: ...

    @overload
    def classify(self, photos: Iterable[_photos.Photo], top: int = 5, *, batch: int = 16, upright: bool = True,
                 progress: bool = False, **options: Any) -> list[_photos.Classified]: ...

    @with_options
    def classify(self, photos: Any, top: int = 5, *, batch: int = 16, upright: bool = True, progress: bool = False,
                 **options: Any) -> list[tuple[str, float]] | list[_photos.Classified]:
        """What photographs show, the most probable class first.

        photos: one photograph (a path, the bytes of a file, an image of Pillow, or pixels uint8 [H, W, 3]) gives [("tabby", 0.61), ...], and
        one that cannot be read raises Error. A folder, or several photographs, give a list of Classified, in order;
        one that cannot be read has an `error` there. progress=True shows how far it is (with tqdm, where installed).
        `upright` turns photographs as their EXIF data say. The other keywords are those of `compile`.
        """
        return self._classifiers.classify(photos, top, batch, upright, progress, options)

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, (self.graph, self.preprocess, self.labels, self.warnings, self.metadata)

    def save(self, path: Path) -> None:
        """Writes a model file; an .onnx file has the graph alone. An existing file is replaced only on success."""
        _core.save_model(path, self.graph, self.preprocess, self.labels, self.metadata)

    def _repr_html_(self) -> str:
        """Its nodes, where their shapes are known."""
        try:
            return f"<pre>{escape(repr(self))}\n\n{escape(self.summary())}</pre>"
        except Error:  # open extents
            return f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        labels = f", {len(self.labels)} labels" if self.labels else ""
        return repr(self.graph).replace("<lamina.Graph", "<lamina.Model", 1)[:-1] + labels + ">"


def load(source: Source) -> Model:
    """A model file of Lamina's (.safetensors), or an .onnx file, recognised by its content: a path, the bytes of one, or an
    open file. "digits" is a small model that ships, "classifier" what python -m lamina.get_classifier brings."""
    file = _core.load_model(model_file(source))
    return Model(file.graph, file.preprocess, file.labels, file.warnings, file.metadata)


def arch(name: str, weights: Source | dict[str, Any], *, key: str = "", strip_prefix: str = "") -> Model:
    """A ready-made network, one of arch_names(), with weights from a file (.pth, .safetensors; a path, bytes, an open file)
    or a dict of arrays.

    key says where the weights are in a checkpoint that has several ("ema"), strip_prefix what to leave out in front of
    their names ("backbone."). With 1000 classes the labels are ImageNet's.
    """
    if name not in _core.arch_names():
        raise Error(f"unknown network {name!r:.80}{_core.nearest_text(str(name), _core.arch_names())}")
    file = _core.load_arch(name, weights if isinstance(weights, dict) else file_of(weights), key, strip_prefix)
    names = imagenet_labels()
    labels = names if file.graph.output_shapes == (("N", len(names)),) else []
    return Model(file.graph, file.preprocess, labels, file.warnings)


def _file_of(graph: Graph) -> tuple[Any, ...]:
    """How a graph is pickled: as a model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.safetensors")
        _core.save_model(path, graph, None, [], {})
        with open(path, "rb") as file:
            return _graph_of, (file.read(),)


def _graph_of(content: bytes) -> Graph:
    return _core.load_model(content).graph


copyreg.pickle(Graph, _file_of)
