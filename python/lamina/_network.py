"""A network: a graph, how a photograph becomes its input and a score a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from ._core import Error, Graph, Plan, PlanMemory, Preprocess, Stop, named_preprocess, nearest_text, require_labels
from ._fitted import fitted, host_array, require_fits, require_rank
from ._idle import Idle
from ._shapes import is_open, outputs_of, text_of
from ._signatures import with_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import CompileOptions


def imagenet_labels() -> list[str]:
    """The names of ImageNet's 1000 classes, in torchvision's order: for model.labels of a model that does not say."""
    return resources.files("lamina").joinpath("imagenet_classes.txt").read_text("utf-8").splitlines()


class Network:
    """What plans and pools are compiled from: all of a Model but its classifiers, which are made of pools."""

    __slots__ = ("graph", "warnings", "metadata", "_preprocess", "_labels", "_plans", "_by_value", "__weakref__")

    def __init__(self, graph: Graph, preprocess: Preprocess | None = None, labels: Sequence[str] = (),
                 warnings: Sequence[str] = (), metadata: Mapping[str, str] | None = None, kinds: int | None = None) -> None:
        if not isinstance(graph, Graph):
            raise TypeError(f"graph: expected a lamina.Graph, got {type(graph).__name__}")
        self.graph = graph
        self.preprocess = preprocess
        self.warnings = list(warnings)
        self.metadata = dict(metadata or {})
        self._labels = list(labels)  # of a file, which was looked at as it was read
        self._plans: Idle[Plan] = Idle(kinds)
        self._by_value: set[str] = set()  # inputs whose values decide shapes, axes or weights

    @property
    def preprocess(self) -> Preprocess | None:
        """How a photograph becomes the input. It may be set to a Preprocess, or to "imagenet", "symmetric", "caffe", "yolo" or "yolox",
        which are then those of the size of the model's input."""
        return self._preprocess

    @preprocess.setter
    def preprocess(self, value: Preprocess | str | None) -> None:
        if isinstance(value, str):
            value = named_preprocess(value, self.graph)
        if not isinstance(value, Preprocess | None):
            raise Error(f"preprocess: expected a lamina.Preprocess, a name of one or None, got {value!r}")
        self._preprocess = value

    @property
    def labels(self) -> list[str]:
        """The classes' names, or an empty list. It may be set to a list of texts, or to "imagenet"."""
        return self._labels

    @labels.setter
    def labels(self, names: Sequence[str] | None) -> None:
        if names == "imagenet":
            names = imagenet_labels()
        several = isinstance(names, Iterable) and not isinstance(names, str)
        texts = list(names) if names is not None and several else []
        if not (several or names is None) or not all(isinstance(name, str) for name in texts):
            raise Error(f"labels: expected a list of texts, one for each class, got {names!r:.80}")
        require_labels(self.graph, texts, self.metadata)
        self._labels = texts

    @with_options
    def __call__(self, x: Any, *, stop: Stop | None = None, time: float | None = None, **options: Unpack[CompileOptions]) -> Any:
        """The outputs for x, arrays as for Plan.run, by a plan for as many images and such shapes: compiled at the first
        call, kept for others, and of whichever GPU x is on. Arrays with gaps, which a Plan refuses, are copied. Threads may
        call it at the same time. Numbers and lists become arrays, floats the input's floats, [N, H, W, C] becomes [N, C, H, W].
        Pixels uint8 [N, H, W, 3] or [N, 3, H, W] of the model's size are normalised as its `preprocess` says. An input whose value decides a shape, such as the size that a picture is resized to, is a
        constant of the plan: one is kept for each value. `stop` and `time`, of seconds, end the run as
        they end that of a plan. The time counts the run alone: it does not end the compiling of a first call."""
        x, options = self._taken(x, options)
        named = self._named(x, options)
        none = [name for name, shape in zip(self.graph.input_names, self.graph.input_shapes)
                if shape[:1] == ("N",) and isinstance(named.get(name), np.ndarray) and named[name].shape[:1] == (0,)]
        if none:  # one image in a plan for two, which takes no fewer than it has unless each output is one of each image
            self._require_fits(named, options)
            two, one = ({**named, **{name: np.zeros((count, *named[name].shape[1:]), named[name].dtype) for name in none}} for count in (2, 1))
            with self.plan_for(two, options) as plan:
                found = plan({name: one[name] for name in plan.input_names}, stop=stop, time=time)
                return tuple(y[:0] for y in found) if isinstance(found, tuple) else found[:0]
        with self.plan_for(x, options) as plan:
            if self._by_value:
                x = {name: array for name, array in self._named(x, options).items()
                     if name in plan.input_names or name not in self._by_value}
            try:
                return plan(x, stop=stop, time=time)
            except Error:  # which names a batch that nobody asked for by a number
                self._require_fits(named, options)
                raise

    def _require_fits(self, named: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        if not {"photos", "input_format", "input_shapes", "batch"} & options.keys():
            for name, declared, dtype in zip(self.graph.input_names, self.graph.input_shapes, self.graph.input_dtypes):
                if name in named:
                    require_fits(name, named[name], declared, dtype)

    def _taken(self, x: Any, options: CompileOptions) -> tuple[Any, CompileOptions]:
        """The arrays as the inputs take them, and the options for that."""
        strict = "photos" in options or "input_format" in options
        ports = list(zip(self.graph.input_names, self.graph.input_shapes, self.graph.input_dtypes))
        kinds: dict[str, Any] = {} if strict else {name: (shape, dtype) for name, shape, dtype in ports if name not in options.get("constants", ())}
        if isinstance(x, dict):
            known = (*self.graph.input_names, *self.graph.optional_inputs)
            for name in x:  # as a plan's run says it, before one is compiled for these
                if name not in known:
                    raise Error(f'run: the graph has no input "{name}"{nearest_text(str(name), known)}')
            return {name: self._fitted(name, array, *kinds.get(name, ())) for name, array in x.items()}, options
        several = isinstance(x, tuple) or (isinstance(x, list) and (len(ports) != 1 or (x and hasattr(x[0], "shape"))))
        if several:
            some = [*kinds.items(), *[("", ())] * len(x)]
            return tuple(self._fitted(name, array, *kind) for array, (name, kind) in zip(x, some)), options
        declared, dtype = next(iter(kinds.values()), ((), ""))
        pixels = host_array(x) if len(kinds) == 1 and dtype == "f32" and declared[1:2] == (3,) else None
        if pixels is not None and pixels.dtype == np.uint8 and pixels.ndim == 4:
            size = (self.preprocess.crop, self.preprocess.width) if self.preprocess else ()
            last = pixels if pixels.shape[3] == 3 else pixels.transpose(0, 2, 3, 1)
            if last.shape[1:] == (*size, 3):
                return np.asarray(last, order="C"), {**options, "photos": True}
            if not self.preprocess:
                raise Error(f"model: expected {dtype} {list(declared)}, got u8 {list(pixels.shape)}; for pixels set "
                            'model.preprocess, which says how they are normalised, e.g. to "imagenet"')
        return self._fitted(next(iter(kinds), ""), x, declared, dtype), options

    @staticmethod
    def _fitted(name: str, *array: Any) -> Any:
        try:
            return fitted(*array)
        except Error as error:
            raise Error(f"{name}: {error}" if name else str(error)) from None

    @contextmanager
    def plan_for(self, x: Any, options: Mapping[str, Any]) -> Iterator[Plan]:
        """A plan of this thread's for arrays like x, those whose values matter being part of it."""
        arrays = self._named(x, options)
        names = [name for name in self.graph.input_names if name not in options.get("constants", ())]
        for name in names:
            if name not in arrays:
                raise Error(f'run: input "{name}" is missing; expected {", ".join(names)}')
        with ExitStack() as stack:
            while True:
                given = {name: np.asarray(arrays[name], order="C") for name in sorted(self._by_value) if name in arrays}
                known = {**options, "constants": {**options.get("constants", {}), **given}} if given else options
                try:
                    plan = stack.enter_context(self._plan_like(arrays, known))
                except Error as error:
                    unknown = {name for name in getattr(error, "inputs", ()) if isinstance(arrays.get(name), np.ndarray)}
                    if unknown <= self._by_value:
                        raise
                    self._by_value |= unknown
                else:
                    yield plan
                    return

    def _named(self, x: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays by the names of the inputs that are no constants."""
        names = [name for name in self.graph.input_names if name not in options.get("constants", ())]
        return x if isinstance(x, dict) else dict(zip(names, x if isinstance(x, (tuple, list)) else (x,)))

    def _plan_like(self, arrays: Mapping[str, Any], options: Mapping[str, Any]) -> AbstractContextManager[Plan]:
        ports = [(name, declared) for name, declared in zip(self.graph.input_names, self.graph.input_shapes)
                 if name not in options.get("constants", ())]
        for name, declared, dtype in zip(self.graph.input_names, self.graph.input_shapes, self.graph.input_dtypes):
            require_rank(name, arrays.get(name), declared, dtype, hasattr(self, "classify"))
        keywords: dict[str, Any] = dict(options)
        # A file says of an extent that it is open, not that it is that of another input.
        batched = [arrays[name] for name, declared in ports if declared[:1] == ("N",) and name in arrays]
        batches = {array.shape[0] for array in batched if hasattr(array, "shape") and len(array.shape) > 0}
        apart = len(batches) > 1 and "batch" not in options
        turned = bool(options.get("photos")) or str(options.get("input_format")).endswith("nhwc")
        opened = {}
        for name, declared in ports:
            given: tuple[int, ...] = getattr(arrays.get(name), "shape", ())
            if declared[:1] == ("N",) and len(given) == len(declared) and not apart:
                if given[0] == 0:
                    raise Error(f"{name}: expected 1 image or more, got {text_of(given)}")
                keywords.setdefault("batch", given[0])
            if given and (is_open(declared) or "N" in declared[not apart:]):
                extents = tuple(given[i] for i in (0, 3, 1, 2)) if turned and len(given) == 4 else tuple(given)
                opened[name] = (*declared[:1], *extents[1:]) if declared[:1] == ("N",) and not apart else extents
            lender = getattr(arrays.get(name), "__dlpack_device__", None)
            if lender is not None and lender()[0] == 2:  # kDLCUDA
                keywords.setdefault("device", f"cuda:{lender()[1]}")
        for name in self.graph.optional_inputs:  # which are a plan's inputs if they are given
            if hasattr(arrays.get(name), "shape"):
                opened[name] = tuple(arrays[name].shape)
        if opened:
            keywords.setdefault("input_shapes", opened)
        key = {**keywords, "preprocess": self.preprocess}
        return self._plans.one(self.graph, key, lambda: self.graph.compile(self.preprocess, **keywords))

    def any_plan(self) -> Plan | None:
        """One that was compiled here and that nobody uses at the moment."""
        return next((plan for plans in list(self._plans.idle.values()) for plan in plans), None)

    @with_options
    def compile(self, **options: Unpack[CompileOptions]) -> Plan:
        """A Plan for one device, batch and precision; CompileOptions lists the keywords."""
        return self.graph.compile(self.preprocess, **options)

    @with_options
    def plan_memory(self, **options: Unpack[CompileOptions]) -> PlanMemory:
        """The bytes that `compile` with these options will hold, found out without taking any on a GPU."""
        return self.graph.plan_memory(self.preprocess, **options)

    @with_options
    def plan_summary(self, **options: Unpack[CompileOptions]) -> str:
        """What `compile(...).summary()` would say; with description= also of a device that is not there."""
        return self.graph.plan_summary(self.preprocess, **options)

    def summary(self, batch: int = 1) -> str:
        """A table of the nodes."""
        return self.graph.summary(batch)

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.graph.input_names

    @property
    def input_shapes(self) -> tuple[tuple[int | str, ...], ...]:
        """ "N" is the batch, "?" an extent that is left open, ("...",) a shape of any rank."""
        return self.graph.input_shapes

    @property
    def input_dtypes(self) -> tuple[str, ...]:
        """ "f32", "u8", ... of each input."""
        return self.graph.input_dtypes

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.graph.output_names

    @property
    def output_shapes(self) -> tuple[tuple[int | str, ...] | None, ...]:
        """As input_shapes; None of an output whose shape compiling alone tells."""
        declared = self.graph.output_shapes
        found = outputs_of(self.graph, {}) if None in declared else []
        return tuple(found[place][1] if shape is None and found else shape for place, shape in enumerate(declared))
