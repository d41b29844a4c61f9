"""ONNX Runtime's InferenceSession."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import Error, ModelFile, Plan, Stop, check_options, new_tensor
from .._core import load_model as _load_model
from .._fitted import converted, numbers
from .._network import Network
from .._shapes import is_open
from .._signatures import with_options
from ._arguments import DEVICES, Provider, device_of, expect
from ._errors import ITS_KIND, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, MissingInputs, NoSuchFile, raised_as
from ._file import Declared, ModelMetadata, NodeArg, declared_in, is_model
from ._options import GraphOptimizationLevel, RunOptions, SessionOptions
from ._ports import Ports
from ._trace import Trace
from ._values import DTYPE_OF_TEXT, NUMPY_TYPE, IOBinding, OrtValue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options import CompileOptions
    from .._sources import Path

def changes_nothing(*_: object, **__: object) -> None:
    """Changes nothing: what goes wrong is an exception, nothing is reported to anybody, and no library is needed."""


def _read(model: Path | bytes, extents: Mapping[str, int]) -> tuple[ModelFile, Declared]:
    if not isinstance(model, (str, os.PathLike, bytes)):
        raise TypeError(f"InferenceSession: expected a path, or the bytes of a file, got {type(model).__name__}")
    try:
        read = _load_model(model)
    except Error as error:
        if isinstance(error, NoSuchFile):
            raise
        graph = "no such op" in str(error)
        kind = InvalidGraph if graph else ITS_KIND.get(type(error)) or (Fail if is_model(model) else InvalidProtobuf)
        raise kind(str(error)) from None
    return read, declared_in(model, read, extents)


def _copy(model: Path | bytes, path: str) -> None:
    """Appears whole: other processes may look for it."""
    try:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", delete=False) as file:
            file.write(model if isinstance(model, bytes) else FilePath(model).read_bytes())
        os.replace(file.name, path)
    except OSError as error:
        raise Fail(f"SessionOptions: optimized_model_filepath {path}: cannot be written: {error.strerror}") from None


@contextmanager
def ended_by(options: RunOptions | None) -> Iterator[Stop | None]:
    """What stops a run; raises Fail where that was asked for, before it or meanwhile."""
    expect(RunOptions, options, "run_options")

    def heed() -> None:
        if options is not None and options.terminate:
            raise Fail("run: ended, as RunOptions.terminate says")

    heed()
    try:
        yield None if options is None else options._stop
    finally:
        heed()


class InferenceSession:
    """A model that is compiled as its inputs come, with the methods of ONNX Runtime's InferenceSession.

    path_or_bytes: of an .onnx file or of one of Lamina's. providers: the first one that is here is used.
    disabled_optimizers and enable_fallback change nothing. convert=True: arrays of other types than the model's are converted;
    otherwise they are refused. plans: so many combinations of input shapes are kept compiled, if not said four and those that have
    room (512 MiB). The other keywords are those of `compile`: precision="fp16". Threads may share a session, with a plan each.
    """

    @with_options
    def __init__(self, path_or_bytes: Path | bytes, sess_options: SessionOptions | None = None,
                 providers: str | Sequence[Provider] | None = None,
                 provider_options: Sequence[Mapping[str, Any]] | None = None, disabled_optimizers: Sequence[str] | None = None, *,
                 convert: bool = False, plans: int | None = None, enable_fallback: bool = True, **options: Unpack[CompileOptions]) -> None:
        expect(SessionOptions, sess_options, "sess_options")
        self._sess_options = self._settings = sess_options or SessionOptions()
        self._enable_fallback = enable_fallback
        self._model_path = None if isinstance(path_or_bytes, bytes) else path_or_bytes
        self._model_bytes = path_or_bytes if isinstance(path_or_bytes, bytes) else None
        self._trace = Trace(self._settings.profile_file_prefix) if self._settings.enable_profiling else None
        self._options: dict[str, Any] = {"threads": self._settings.intra_op_num_threads, **options}
        if self._settings.graph_optimization_level == GraphOptimizationLevel.ORT_DISABLE_ALL:
            self._options.setdefault("fuse", False)
        self._use(providers, provider_options)
        read, self._declared = _read(path_or_bytes, self._settings.extents)
        check_options(read.preprocess, **self._options)
        if self._settings.optimized_model_filepath:
            _copy(path_or_bytes, self._settings.optimized_model_filepath)
        self._network = Network(read.graph, read.preprocess, kinds=plans)
        self._plans, self._convert = plans, convert
        self._ports = Ports(read.graph, self._declared, self._options)
        self._inputs = self._ports.inputs
        self._shapes = dict(zip(read.graph.input_names, read.graph.input_shapes))
        self.input_names = tuple(port.name for port in self._inputs)
        self.bindable_inputs = (*self.input_names, *(port.name for port in self._declared.defaults))
        self.output_names = tuple(self._options.get("outputs") or read.graph.output_names)
        self._check()

    def _check(self) -> None:
        """Compiles for one image, where no more is open: what the model cannot run is found here, and a first run finds the plan."""
        if any(map(is_open, self._shapes.values())):
            return self._ports.require_supported()
        like = {port.name: np.empty([n if isinstance(n, int) else 1 for n in port.shape], "u1") for port in self._inputs}
        try:
            with self._network._plan_like(like, self._options):
                pass
        except Error as error:
            if not getattr(error, "inputs", ()):  # whose values decide shapes
                raise ITS_KIND.get(type(error), Fail)(str(error)) from None

    def _use(self, providers: str | Sequence[Provider] | None, options: Sequence[Mapping[str, Any]] | None) -> None:
        provider, told = device_of(providers, options)
        self._providers = self._fallback_providers = [provider]
        self._provider_options = {provider: {key: str(value) for key, value in told.items()}}
        self.device = f"cuda:{told.get('device_id', 0)}" if DEVICES[provider] == "cuda" else "cpu"
        stream = told.get("user_compute_stream")
        self.stream = int(stream) if stream else None
        self._options["device"] = self.device

    def set_providers(self, providers: str | Sequence[Provider] | None = None,
                      provider_options: Sequence[Mapping[str, Any]] | None = None) -> None:
        """From now on on the first of these that is here."""
        self._use(providers, provider_options)
        self._network = Network(self._network.graph, self._network.preprocess, kinds=self._plans)

    def get_providers(self) -> list[str]:
        return self._providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        return self._provider_options

    def get_session_options(self) -> SessionOptions:
        return self._settings

    def get_modelmeta(self) -> ModelMetadata:
        return self._declared.metadata

    enable_fallback = disable_fallback = set_ep_dynamic_options = release_captured_graph = set_tuning_results = changes_nothing

    def get_profiling_start_time_ns(self) -> int:
        return self._trace.start if self._trace else 0

    def end_profiling(self) -> str:
        """Writes the runs of a session whose SessionOptions asked for it, as a trace for Chrome, and says the file's name."""
        trace, self._trace = self._trace, None
        return trace.write() if trace else ""

    def create_ortvalue_from_shape_and_type(self, shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                            device_id: int = 0) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id)

    def get_inputs(self) -> list[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """As the file says them, before and after a run."""
        return list(self._ports.outputs(self.output_names))

    def get_overridable_initializers(self) -> list[NodeArg]:
        return list(self._declared.defaults)

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
            run_options: RunOptions | None = None) -> list[Any]:
        """The outputs asked for, all if None, in order.

        Arrays of the host, lists and numbers give NumPy arrays. Arrays of a GPU (anything with __dlpack__) are used where
        they are and give lamina.Tensors there, torch.from_dlpack(y). Once run_options.terminate is set, it ends with Fail.
        """
        return self._results(*self._asked(output_names, input_feed), run_options)

    def run_async(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
                  callback: Callable[[list[Any], Any, str], object], user_data: Any, run_options: RunOptions | None = None) -> None:
        """As run, on a thread of its own, which then calls callback(results, user_data, error); error is "" where there is none."""
        expect(RunOptions, run_options, "run_options")
        asked = self._asked(output_names, input_feed)

        def work() -> None:
            try:
                results, error = self._results(*asked, run_options), ""
            except Error as failed:
                results, error = [], str(failed)
            callback(results, user_data, error)

        threading.Thread(target=work, name="lamina run_async").start()

    def _asked(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
        """What is wanted, and the arrays for it. Raises InvalidArgument."""
        if isinstance(output_names, str):  # whose letters would be names
            raise TypeError(f"output_names: expected a list of names or None, got {output_names!r}; [{output_names!r}] is one")
        if not isinstance(input_feed, Mapping):
            raise TypeError("input_feed: expected a dict of arrays by the names of the inputs, "
                            f"{', '.join(self.input_names)}, got {type(input_feed).__name__}")
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
        return wanted, {name: self._array(ports[name], value) for name, value in input_feed.items()}

    def _results(self, wanted: Sequence[str], feed: dict[str, Any], run_options: RunOptions | None) -> list[Any]:
        with ended_by(run_options) as stop:
            return self._run(wanted, feed, stop)

    def _run(self, wanted: Sequence[str], feed: dict[str, Any], stop: Stop | None) -> list[Any]:
        empty = [name for name, shape in self._shapes.items() if shape[:1] == ("N",) and getattr(feed.get(name), "shape", (1,))[:1] == (0,)]
        if empty:
            return self._of_no_images(feed, empty, wanted, stop)
        with raised_as(InvalidArgument), self.plan_for(feed) as plan:
            return self._computed(plan, feed, wanted, stop)

    def _computed(self, plan: Plan, feed: Mapping[str, Any], wanted: Sequence[str], stop: Stop | None) -> list[Any]:
        if len(plan.input_names) < len(feed):  # the others are constants of the plan
            feed = {name: feed[name] for name in plan.input_names}
        with self._trace.run(plan, feed) if self._trace else nullcontext(), self._ports.naming(feed):
            result = plan(feed, stream=self.stream, stop=stop)
        results = result if isinstance(result, tuple) else (result,)
        return [results[plan.output_names.index(name)] for name in wanted]

    def _of_no_images(self, feed: Mapping[str, Any], empty: Sequence[str], wanted: Sequence[str],
                      stop: Stop | None) -> list[Any]:
        """By one image in a plan for two, which takes no fewer than it has unless each output is one of each image."""
        types = {port.name: NUMPY_TYPE[DTYPE_OF_TEXT[port.type]] for port in self._inputs}
        two, one = ({**feed, **{name: np.zeros((count, *feed[name].shape[1:]), types[name]) for name in empty}}
                    for count in (2, 1))
        with raised_as(InvalidArgument), self.plan_for(two) as plan:
            results = self._computed(plan, one, wanted, stop)
        return [result[:0] if isinstance(result, np.ndarray) else new_tensor([0, *result.shape[1:]], result.dtype, result.device)
                for result in results]

    def run_with_ort_values(self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: RunOptions | None = None) -> list[OrtValue]:
        """As run, from OrtValues to OrtValues."""
        return [OrtValue(array) for array in self.run(output_names, input_dict_ort_values, run_options)]

    def get_tuning_results(self) -> list[dict[str, Any]]:
        """None: kernels are chosen by rule."""
        return []

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """The outputs that were bound, from the inputs that were."""
        if not isinstance(iobinding, IOBinding):
            raise TypeError(f"iobinding: expected what io_binding() makes, got {type(iobinding).__name__}")
        with ended_by(run_options) as stop:
            iobinding.run(stop)

    def plan_for(self, feed: Mapping[str, Any]) -> AbstractContextManager[Plan]:
        """For inputs of these shapes; compiled if it is the first time that they come."""
        return self._network.plan_for(feed, self._options)

    def _array(self, port: NodeArg, value: Any) -> Any:
        if isinstance(value, OrtValue):
            return value.tensor
        if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
            return value
        expected = NUMPY_TYPE[DTYPE_OF_TEXT[port.type]]
        try:
            if isinstance(value, (list, tuple, int, float, bool)):  # numbers that have no type of their own
                array = numbers(value, np.dtype(expected))
            else:
                array = np.asarray(value, order="C")
                if array.dtype.kind not in "biufc" and array.dtype.name != expected:
                    raise Error(f"expected an array of {expected}, got {type(value).__name__}")
                if array.dtype.name != expected:
                    if not self._convert:
                        raise Error(f"expected {expected}, got {array.dtype.name}; convert=True converts")
                    array = converted(array, np.dtype(expected))
        except (Error, TypeError) as error:
            raise InvalidArgument(f"run: {port.name}: {error}") from None
        if array.shape == (1,) and self._shapes.get(port.name) == ():
            array = array.reshape(())
        if self._settings.extents and (len(array.shape) != len(port.shape) or
                                       any(isinstance(want, int) and want != got for want, got in zip(port.shape, array.shape))):
            raise InvalidArgument(f"run: {port.name}: expected {port.shape}, as SessionOptions say, got {list(array.shape)}")
        return array
