"""What a program written for ONNX Runtime finds here: `import lamina.onnxruntime as ort`.

    session = ort.InferenceSession("model.onnx", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    scores, = session.run(None, {"input": x})

A plan is compiled for the shapes of its inputs when they come for the first time, and kept for those that come next.
docs/coming_from.md has both spellings side by side.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._core import Error, ModelFile, Plan, cuda_device_count, version
from ._core import load_model as _load_model
from ._network import Network
from ._ort_options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, ModelMetadata, RunOptions,
                           SessionOptions, metadata_of)
from ._ort_values import NUMPY_TYPE, TYPE_TEXT, IOBinding, OrtValue
from ._signatures import with_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._model import Path
    from ._options import CompileOptions

__all__ = ["ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata",
           "NodeArg", "OrtValue", "RunOptions", "SessionOptions", "disable_telemetry_events", "enable_telemetry_events",
           "get_all_providers", "get_available_providers", "get_device", "get_version_string", "preload_dlls",
           "set_default_logger_severity", "set_default_logger_verbosity", "set_seed"]

__version__ = version()

_DEVICES = {"CUDAExecutionProvider": "cuda", "CPUExecutionProvider": "cpu"}

Provider = str | tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class NodeArg:
    """An input or an output. An extent is a number, or a name where the model leaves it open."""

    name: str
    shape: list[int | str | None]
    type: str


def get_all_providers() -> list[str]:
    """The devices that Lamina knows, by the names that ONNX Runtime has for them."""
    return list(_DEVICES)


def get_available_providers() -> list[str]:
    """The devices of this machine, by the names that ONNX Runtime has for them."""
    return [name for name, device in _DEVICES.items() if device == "cpu" or cuda_device_count() > 0]


def get_device() -> str:
    return "GPU" if cuda_device_count() > 0 else "CPU"


def get_version_string() -> str:
    return __version__


def _changes_nothing(*_: object, **__: object) -> None:
    """Changes nothing: what goes wrong is an exception, nothing is reported to anybody, and no library is needed."""


set_default_logger_severity = set_default_logger_verbosity = _changes_nothing
enable_telemetry_events = disable_telemetry_events = preload_dlls = set_seed = _changes_nothing


def _device_of(providers: Sequence[Provider] | None,
               options: Sequence[Mapping[str, Any]] | None) -> tuple[str, Mapping[str, Any]]:
    """The first provider that is here, and what it was told. The CPU's is there even if nobody asked for it."""
    for i, asked in enumerate(providers or get_available_providers()):
        name, given = asked if isinstance(asked, tuple) else (asked, options[i] if options else {})
        if name in get_available_providers():
            return name, given
        warnings.warn(f"{name} is not here; there are {', '.join(get_available_providers())}", stacklevel=3)
    return "CPUExecutionProvider", {}


def _read(model: Path | bytes) -> tuple[ModelFile, ModelMetadata]:
    if isinstance(model, bytes):
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(model)
            file.flush()
            return _read(file.name)  # whose pages stay when the name goes
    read = _load_model(model)
    return read, metadata_of(model, read)


class InferenceSession:
    """A model that is compiled as its inputs come, with the methods of ONNX Runtime's InferenceSession.

    model: a path, or the bytes, of an .onnx file or of one of Lamina's. providers: the first one that is here is used.
    convert=True: arrays of other types than the model's are converted; otherwise they are refused. plans: so many
    combinations of input shapes are kept compiled; of more the one that was not used for longest goes. The other keywords
    are those of `compile`: precision="fp16". Threads may share a session: those that run at the same time have a plan each.
    """

    @with_options
    def __init__(self, model: Path | bytes, sess_options: SessionOptions | None = None,
                 providers: Sequence[Provider] | None = None,
                 provider_options: Sequence[Mapping[str, Any]] | None = None, *, convert: bool = False,
                 plans: int = 8, **options: Unpack[CompileOptions]) -> None:
        self._settings = (sess_options or SessionOptions()).checked()
        self._provider, self._told = _device_of(providers, provider_options)
        self.device = _DEVICES[self._provider]
        if self.device == "cuda":
            self.device = f"cuda:{self._told.get('device_id', 0)}"
        stream = self._told.get("user_compute_stream")
        self.stream = int(stream) if stream else None
        read, self._metadata = _read(model)
        self._network = Network(read.graph, kinds=plans)
        self.input_names, self.output_names = read.graph.input_names, read.graph.output_names
        self._options: dict[str, Any] = {"device": self.device, "threads": self._settings.intra_op_num_threads, **options}
        if self._settings.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            self._options.setdefault("fuse", False)
        self._convert = convert

    def get_providers(self) -> list[str]:
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {self._provider: {key: str(value) for key, value in self._told.items()}}

    def get_session_options(self) -> SessionOptions:
        return self._settings

    def get_modelmeta(self) -> ModelMetadata:
        return self._metadata

    enable_fallback = disable_fallback = _changes_nothing

    def end_profiling(self) -> str:
        raise Error("end_profiling: no file is written; lamina.load(path).compile().profile(x) times each step, and so does "
                    "`lamina bench model`")

    def get_inputs(self) -> list[NodeArg]:
        graph = self._network.graph
        return [NodeArg(name, list(shape), TYPE_TEXT[dtype])
                for name, shape, dtype in zip(graph.input_names, graph.input_shapes, graph.input_dtypes, strict=True)]

    def get_outputs(self) -> list[NodeArg]:
        """What only compiling tells of them is known after the first run; if no extent but the batch is open, it is
        compiled for one image here."""
        graph = self._network.graph
        plan = self._network.any_plan()
        if plan is None and not any("?" in shape for shape in graph.input_shapes):
            shapes = [[1 if extent == "N" else int(extent) for extent in shape] for shape in graph.input_shapes]
            with self.plan_for({name: np.broadcast_to(np.False_, shape)
                                for name, shape in zip(graph.input_names, shapes, strict=True)}) as plan:
                pass
        each = any(shape[:1] == ("N",) for shape in graph.input_shapes)  # a plan of one image cannot tell
        outputs = []
        for i, (name, declared) in enumerate(zip(graph.output_names, graph.output_shapes, strict=True)):
            shape: list[int | str | None] = list(declared or (plan.output_shapes[i] if plan else ()))
            if declared is None and plan and each and shape[:1] == [plan.batch]:
                shape[0] = "N"
            outputs.append(NodeArg(name, shape, TYPE_TEXT[plan.output_dtypes[i]] if plan else ""))
        return outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        return []

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: object = None) -> list[Any]:
        """The outputs asked for, all if None, in order.

        Arrays of the host give NumPy arrays. Arrays of a GPU (anything with __dlpack__) are used where they are and give
        lamina.Tensors there, torch.from_dlpack(y).
        """
        del run_options
        names = list(self.output_names)
        wanted = list(output_names or names)
        for name in wanted:
            if name not in names:
                raise Error(f"run: there is no output {name}; expected some of {', '.join(names)}")
        if set(input_feed) != set(self.input_names):
            raise Error(f"run: expected inputs {', '.join(self.input_names)}, got {', '.join(input_feed) or 'none'}")
        feed = {name: self._array(name, input_feed[name], dtype)
                for name, dtype in zip(self.input_names, self._network.graph.input_dtypes, strict=True)}
        with self.plan_for(feed) as plan:
            result = plan(feed, stream=self.stream)
        results = result if isinstance(result, tuple) else (result,)
        return [results[names.index(name)] for name in wanted]

    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: object = None) -> list[OrtValue]:
        """As run, from OrtValues to OrtValues."""
        return [OrtValue(array) for array in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: object = None) -> None:
        """The outputs that were bound, from the inputs that were."""
        del run_options
        iobinding.run()

    def plan_for(self, feed: Mapping[str, Any]) -> AbstractContextManager[Plan]:
        """For inputs of these shapes; compiled if it is the first time that they come."""
        return self._network.plan_for(feed, self._options)

    def _array(self, name: str, value: Any, dtype: str) -> Any:
        if isinstance(value, OrtValue):
            return value.tensor
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            return value
        array = np.asarray(value, order="C")
        expected = NUMPY_TYPE[dtype]
        if array.dtype != expected:
            if not self._convert:
                raise Error(f"run: {name}: expected {expected}, got {array.dtype}; convert=True converts")
            array = array.astype(expected)
        return array
