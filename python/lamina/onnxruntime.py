"""What a program written for ONNX Runtime finds here: `import lamina.onnxruntime as ort`.

    session = ort.InferenceSession("model.onnx", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    scores, = session.run(None, {"input": x})

A plan is compiled for the shapes of its inputs when they come for the first time, and kept for those that come next.
docs/coming_from.md has both spellings side by side.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from ._core import Error, Graph, Plan, cuda_device_count, version
from ._core import load_model as _load_model
from ._signatures import with_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._model import Path
    from ._options import CompileOptions

__version__ = version()

_DEVICES = {"CUDAExecutionProvider": "cuda", "CPUExecutionProvider": "cpu"}
_TYPES = {"f32": "float", "f16": "float16", "bf16": "bfloat16", "f64": "double", "bool": "bool", "u8": "uint8",
          "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32", "u64": "uint64",
          "i64": "int64"}

_NUMPY = {"float": "float32", "double": "float64"}

Provider = str | tuple[str, Mapping[str, Any]]


class GraphOptimizationLevel(IntEnum):
    """Of SessionOptions: all but ORT_DISABLE_ALL are the same here."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Of SessionOptions; nothing changes by it here."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class RunOptions:
    """Anything may be set, and changes nothing."""


class SessionOptions:
    """Those that mean something here; others may be set, and change nothing."""

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Changes nothing."""


@dataclass(frozen=True)
class NodeArg:
    """An input or an output. An extent is a number, or a name where the model leaves it open."""

    name: str
    shape: list[int | str | None]
    type: str


def get_available_providers() -> list[str]:
    """The devices of this machine, by the names that ONNX Runtime has for them."""
    return [name for name, device in _DEVICES.items() if device == "cpu" or cuda_device_count() > 0]


def get_device() -> str:
    return "GPU" if cuda_device_count() > 0 else "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Changes nothing: what goes wrong is an exception."""


def _device_of(providers: Sequence[Provider] | None, options: Sequence[Mapping[str, Any]] | None) -> tuple[str, str]:
    """The first provider that is here, and its device."""
    for i, asked in enumerate(providers or get_available_providers()):
        name, given = asked if isinstance(asked, tuple) else (asked, options[i] if options else {})
        if name in get_available_providers():
            device = _DEVICES[name]
            return name, f"{device}:{given['device_id']}" if device == "cuda" and "device_id" in given else device
        warnings.warn(f"{name} is not here; there are {', '.join(get_available_providers())}", stacklevel=3)
    raise Error(f"none of the providers asked for is here; there are {', '.join(get_available_providers())}")


class InferenceSession:
    """A model that is compiled as its inputs come, with the methods of ONNX Runtime's InferenceSession.

    model: a path, of an .onnx file or of one of Lamina's. providers: the first one that is here is used.
    convert=True: arrays of other types than the model's are converted; otherwise they are refused. plans: so many
    combinations of input shapes are kept compiled; of more the one that was not used for longest goes. The other keywords
    are those of `compile`: precision="fp16". Threads may share a session: runs of one shape take turns.
    """

    @with_options
    def __init__(self, model: Path, sess_options: SessionOptions | None = None,
                 providers: Sequence[Provider] | None = None,
                 provider_options: Sequence[Mapping[str, Any]] | None = None, *, convert: bool = False,
                 plans: int = 8, **options: Unpack[CompileOptions]) -> None:
        settings = sess_options or SessionOptions()
        self._provider, device = _device_of(providers, provider_options)
        self._graph: Graph = _load_model(model).graph
        self._options: dict[str, Any] = {"device": device, "threads": settings.intra_op_num_threads, **options}
        if settings.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            self._options.setdefault("fuse", False)
        self._convert, self._most = convert, plans
        self._plans: OrderedDict[tuple[Any, ...], tuple[Plan, threading.Lock]] = OrderedDict()
        self._lock = threading.Lock()

    def get_providers(self) -> list[str]:
        return [self._provider]

    def get_inputs(self) -> list[NodeArg]:
        graph = self._graph
        return [NodeArg(name, list(shape), f"tensor({_TYPES[dtype]})")
                for name, shape, dtype in zip(graph.input_names, graph.input_shapes, graph.input_dtypes, strict=True)]

    def get_outputs(self) -> list[NodeArg]:
        """What only compiling tells of them is known after the first run; if no extent but the batch is open, it is
        compiled for one image here."""
        graph = self._graph
        if not self._plans and not any("?" in shape for shape in graph.input_shapes):
            self._plan(tuple(tuple(1 if extent == "N" else int(extent) for extent in shape)
                             for shape in graph.input_shapes))
        with self._lock:
            plan = next((plan for plan, _ in self._plans.values()), None)
        each = any(shape[:1] == ("N",) for shape in graph.input_shapes)  # a plan of one image cannot tell
        outputs = []
        for i, (name, declared) in enumerate(zip(graph.output_names, graph.output_shapes, strict=True)):
            shape: list[int | str | None] = list(declared or (plan.output_shapes[i] if plan else ()))
            if declared is None and plan and each and shape[:1] == [plan.batch]:
                shape[0] = "N"
            outputs.append(NodeArg(name, shape, f"tensor({_TYPES[plan.output_dtypes[i]]})" if plan else ""))
        return outputs

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: object = None) -> list[Any]:
        """The outputs asked for, all if None, in order.

        Arrays of the host give NumPy arrays. Arrays of a GPU (anything with __dlpack__) are used where they are and give
        lamina.Tensors there, torch.from_dlpack(y): that is what an IOBinding is for in ONNX Runtime.
        """
        del run_options
        graph = self._graph
        names = list(graph.output_names)
        wanted = names if output_names is None else list(output_names)
        for name in wanted:
            if name not in names:
                raise Error(f"run: there is no output {name}; expected some of {', '.join(names)}")
        missing = [name for name in graph.input_names if name not in input_feed]
        unknown = [name for name in input_feed if name not in graph.input_names]
        if missing or unknown:
            raise Error(f"run: expected inputs {', '.join(graph.input_names)}, got {', '.join(input_feed) or 'none'}")
        feed = [self._array(name, input_feed[name], dtype)
                for name, dtype in zip(graph.input_names, graph.input_dtypes, strict=True)]
        plan, lock = self._plan(tuple(tuple(array.shape) for array in feed))
        with lock:
            result = plan(feed[0] if len(feed) == 1 else tuple(feed))
        results = list(result) if isinstance(result, tuple) else [result]
        return [results[names.index(name)] for name in wanted]

    def _array(self, name: str, value: Any, dtype: str) -> Any:
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            return value
        array = np.asarray(value)
        expected = _NUMPY.get(_TYPES[dtype], _TYPES[dtype])
        if array.dtype != expected:
            if not self._convert:
                raise Error(f"run: {name}: expected {expected}, got {array.dtype}; convert=True converts")
            array = array.astype(expected)
        return np.ascontiguousarray(array)

    def _plan(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Plan, threading.Lock]:
        """For inputs of these shapes; compiled if it is the first time that they come."""
        with self._lock:
            if shapes not in self._plans:
                self._plans[shapes] = (self._compile(shapes), threading.Lock())
                if len(self._plans) > self._most:
                    self._plans.popitem(last=False)
            self._plans.move_to_end(shapes)
            return self._plans[shapes]

    def _compile(self, shapes: tuple[tuple[int, ...], ...]) -> Plan:
        graph = self._graph
        options = dict(self._options)
        options["input_shapes"] = dict(options.get("input_shapes", {}))
        for name, declared, shape in zip(graph.input_names, graph.input_shapes, shapes, strict=True):
            if len(declared) != len(shape):
                raise Error(f"run: {name}: expected {len(declared)} extents, {list(declared)}, got {list(shape)}")
            if declared and declared[0] == "N":
                options["batch"] = shape[0]
            if "?" in declared:
                options["input_shapes"][name] = shape
        return graph.compile(None, **options)
