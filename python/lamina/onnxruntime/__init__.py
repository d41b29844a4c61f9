"""What a program written for ONNX Runtime finds here: `import lamina.onnxruntime as ort`.

    session = ort.InferenceSession("model.onnx", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    scores, = session.run(None, {"input": x})

A plan is compiled for the shapes of its inputs when they come for the first time, and kept for those that come next.
docs/coming_from.md has both spellings side by side.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import Error, ModelFile, Plan, check_options, cuda_device_count, new_tensor, version
from .._core import load_model as _load_model
from .._network import Network
from .._signatures import with_options
from ._errors import Fail, InvalidArgument, InvalidProtobuf, MissingInputs, NoSuchFile, raised_as
from ._file import Declared, ModelMetadata, NodeArg, declared_in, is_model
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._values import DTYPE_OF_TEXT, NUMPY_TYPE, TYPE_TEXT, IOBinding, OrtValue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._model import Path
    from .._options import CompileOptions

__all__ = ["ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata",
           "NodeArg", "OrtValue", "RunOptions", "SessionOptions", "disable_telemetry_events", "enable_telemetry_events",
           "get_all_providers", "get_available_providers", "get_device", "get_version_string", "preload_dlls",
           "set_default_logger_severity", "set_default_logger_verbosity", "set_seed"]

__version__ = version()

_DEVICES = {"CUDAExecutionProvider": "cuda", "CPUExecutionProvider": "cpu"}

Provider = str | tuple[str, Mapping[str, Any]]


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


def _read(model: Path | bytes) -> tuple[ModelFile, Declared]:
    if isinstance(model, bytes):
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(model)
            file.flush()
            return _read(file.name)  # whose pages stay when the name goes
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"InferenceSession: expected a path, or the bytes of a file, got {type(model).__name__}")
    try:
        read = _load_model(model)
    except Error as error:
        kind = NoSuchFile if not os.path.exists(model) else Fail if is_model(model) else InvalidProtobuf
        raise kind(str(error)) from None
    return read, declared_in(model, read)


class InferenceSession:
    """A model that is compiled as its inputs come, with the methods of ONNX Runtime's InferenceSession.

    path_or_bytes: of an .onnx file or of one of Lamina's. providers: the first one that is here is used.
    disabled_optimizers changes nothing. convert=True: arrays of other types than the model's are converted; otherwise they are refused. plans: so many
    combinations of input shapes are kept compiled; of more the one that was not used for longest goes. The other keywords
    are those of `compile`: precision="fp16". Threads may share a session: those that run at the same time have a plan each.
    """

    @with_options
    def __init__(self, path_or_bytes: Path | bytes, sess_options: SessionOptions | None = None,
                 providers: Sequence[Provider] | None = None,
                 provider_options: Sequence[Mapping[str, Any]] | None = None, disabled_optimizers: Sequence[str] | None = None, *,
                 convert: bool = False, plans: int = 8, **options: Unpack[CompileOptions]) -> None:
        self._settings = (sess_options or SessionOptions()).checked()
        self._provider, self._told = _device_of(providers, provider_options)
        self.device = _DEVICES[self._provider]
        if self.device == "cuda":
            self.device = f"cuda:{self._told.get('device_id', 0)}"
        stream = self._told.get("user_compute_stream")
        self.stream = int(stream) if stream else None
        self._options: dict[str, Any] = {"device": self.device, "threads": self._settings.intra_op_num_threads, **options}
        if self._settings.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            self._options.setdefault("fuse", False)
        read, self._declared = _read(path_or_bytes)
        check_options(read.preprocess, **self._options)
        self._network = Network(read.graph, read.preprocess, kinds=plans)
        self._convert = convert
        self._inputs = self._ports_of_inputs()
        self._batched = [name for name, shape in zip(read.graph.input_names, read.graph.input_shapes) if shape[:1] == ("N",)]
        self._outputs: list[NodeArg] | None = None
        self.input_names = tuple(port.name for port in self._inputs)
        self.bindable_inputs = (*self.input_names, *(port.name for port in self._declared.defaults))
        self.output_names = tuple(self._options.get("outputs") or read.graph.output_names)

    def get_providers(self) -> list[str]:
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return {self._provider: {key: str(value) for key, value in self._told.items()}}

    def get_session_options(self) -> SessionOptions:
        return self._settings

    def get_modelmeta(self) -> ModelMetadata:
        return self._declared.metadata

    enable_fallback = disable_fallback = _changes_nothing

    def end_profiling(self) -> str:
        raise Error("end_profiling: no file is written; lamina.load(path).compile().profile(x) times each step, and so does "
                    "`lamina bench model`")

    def get_inputs(self) -> list[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """As the file says them, with the numbers that follow for extents that it names. Where it says none, an extent that
        is not the same for all inputs is None."""
        if self._outputs is None:
            declared = {port.name: self._as_taken(port, "output_format") for port in self._declared.outputs}
            named = {extent for port in self._inputs for extent in port.shape}
            settled = {name for name, port in declared.items()
                       if port.shape and all(isinstance(extent, int) or extent in named for extent in port.shape)}
            found = {} if set(self.output_names) <= settled else self._outputs_by_trial()
            self._outputs = []
            for name in self.output_names:
                said, tried = declared.get(name), found.get(name)
                if said and tried and len(said.shape) == len(tried.shape):
                    tried = NodeArg(name, said.type or tried.type,
                                    [two if isinstance(two, int) else one for one, two in zip(said.shape, tried.shape)])
                self._outputs.append(tried or said or NodeArg(name, "", []))
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        return list(self._declared.defaults)

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: object = None) -> list[Any]:
        """The outputs asked for, all if None, in order.

        Arrays of the host, and lists, give NumPy arrays. Arrays of a GPU (anything with __dlpack__) are used where they
        are and give lamina.Tensors there, torch.from_dlpack(y).
        """
        del run_options
        wanted = list(output_names or self.output_names)
        for name in wanted:
            if name not in self.output_names:
                raise InvalidArgument(f"run: there is no output {name}; expected some of {', '.join(self.output_names)}")
        given = ", ".join(input_feed) or "none"
        if not set(self.input_names) <= set(input_feed):
            raise MissingInputs(f"run: expected inputs {', '.join(self.input_names)}, got {given}")
        ports = {port.name: port for port in (*self._inputs, *self._declared.defaults)}
        if not set(input_feed) <= set(ports):
            raise InvalidArgument(f"run: expected inputs {', '.join(ports)}, got {given}")
        feed = {name: self._array(ports[name], value) for name, value in input_feed.items()}
        empty = [name for name in self._batched if getattr(feed.get(name), "shape", (1,))[:1] == (0,)]
        if empty:
            return self._of_no_images(feed, empty, wanted)
        with raised_as(InvalidArgument), self.plan_for(feed) as plan:
            return self._computed(plan, feed, wanted)

    def _computed(self, plan: Plan, feed: Mapping[str, Any], wanted: Sequence[str]) -> list[Any]:
        result = plan(feed, stream=self.stream)
        results = result if isinstance(result, tuple) else (result,)
        return [results[plan.output_names.index(name)] for name in wanted]

    def _of_no_images(self, feed: Mapping[str, Any], empty: Sequence[str], wanted: Sequence[str]) -> list[Any]:
        """By one image in a plan for two, which takes no fewer than it has unless each output is one of each image."""
        types = {port.name: NUMPY_TYPE[DTYPE_OF_TEXT[port.type]] for port in self._inputs}
        two, one = ({**feed, **{name: np.zeros((count, *feed[name].shape[1:]), types[name]) for name in empty}}
                    for count in (2, 1))
        with raised_as(InvalidArgument), self.plan_for(two) as plan:
            results = self._computed(plan, one, wanted)
        return [result[:0] if isinstance(result, np.ndarray) else new_tensor([0, *result.shape[1:]], result.dtype, result.device)
                for result in results]

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

    def _ports_of_inputs(self) -> list[NodeArg]:
        """As the file says them, and of Lamina's files the network."""
        graph = self._network.graph
        declared = {port.name: port for port in self._declared.inputs}
        ports = []
        for name, shape, dtype in zip(graph.input_names, graph.input_shapes, graph.input_dtypes, strict=True):
            own = NodeArg(name, TYPE_TEXT[dtype], [None if extent == "?" else extent for extent in shape if extent != "..."])
            if name not in self._options.get("constants", ()):
                ports.append(self._as_taken(declared.get(name, own), "input_format"))
        return ports

    def _as_taken(self, port: NodeArg, which: str) -> NodeArg:
        """Of f32 in the network, as the caller has it."""
        dtype, _, layout = str(self._options.get(which, "f32")).partition(",")
        image = port.type == TYPE_TEXT["f32"] and len(port.shape) == 4
        if which == "input_format" and image and port.shape[1] == 3 and self._options.get("photos"):
            dtype, layout = "u8", "nhwc"
        if port.type != TYPE_TEXT["f32"]:
            return port
        turned = [port.shape[i] for i in (0, 2, 3, 1)] if image and layout == "nhwc" else port.shape
        return NodeArg(port.name, TYPE_TEXT.get(dtype, port.type), turned)

    def _outputs_by_trial(self) -> dict[str, NodeArg]:
        """What two kinds of inputs have in common."""
        graph = self._network.graph
        batch = next((port.shape[0] for port in self._inputs if port.shape and not isinstance(port.shape[0], int)), None)
        trials = []
        for images, side in ((2, 64), (3, 96)):
            options: dict[str, Any] = {"batch": images} if any("N" in shape for shape in graph.input_shapes) else {}
            options["input_shapes"] = {
                name: [{"N": images, "?": side}.get(str(extent), extent) for extent in shape]
                for name, shape in zip(graph.input_names, graph.input_shapes, strict=True) if "?" in shape}
            try:
                trials.append(graph.output_ports(**{**self._options, **options}))
            except Error:
                return {}
        ports = {}
        for (name, shape, dtype), (_, other, _) in zip(*trials, strict=True):
            extents: list[int | str | None] = [one if one == two else None for one, two in zip(shape, other)]
            if (shape[:1], other[:1]) == ((2,), (3,)):
                extents[0] = batch
            ports[name] = self._as_taken(NodeArg(name, TYPE_TEXT[dtype], extents), "output_format")
        return ports

    def _array(self, port: NodeArg, value: Any) -> Any:
        if isinstance(value, OrtValue):
            return value.tensor
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            return value
        expected = NUMPY_TYPE[DTYPE_OF_TEXT[port.type]]
        if isinstance(value, (list, tuple, int, float, bool)):  # numbers that have no type of their own
            try:
                return np.asarray(value, expected, order="C")
            except (ValueError, TypeError) as error:
                raise InvalidArgument(f"run: {port.name}: expected numbers in lists of the same lengths: {error}") from None
        array = np.asarray(value, order="C")
        if array.dtype.name != expected:
            if array.dtype.kind not in "biufc":
                raise InvalidArgument(f"run: {port.name}: expected an array of {expected}, got {type(value).__name__}")
            if not self._convert:
                raise InvalidArgument(f"run: {port.name}: expected {expected}, got {array.dtype.name}; convert=True converts")
            array = array.astype(expected)
        return array
