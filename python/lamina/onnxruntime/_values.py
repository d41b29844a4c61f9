"""ONNX Runtime's OrtValue and IOBinding: tensors that stay where they are, and which of them a session reads and writes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import Stop, Tensor, address_of, copy_into, new_tensor, synchronize, tensor_at, tensor_of
from ._errors import BindingError, raised_as

if TYPE_CHECKING:
    from typing_extensions import Self

    from . import InferenceSession

# An element type as Lamina, ONNX Runtime, NumPy and the numbers of ONNX have it.
_TYPES = [("f32", "float", "float32", 1), ("u8", "uint8", "uint8", 2), ("i8", "int8", "int8", 3),
          ("u16", "uint16", "uint16", 4), ("i16", "int16", "int16", 5), ("i32", "int32", "int32", 6),
          ("i64", "int64", "int64", 7), ("bool", "bool", "bool", 9), ("f16", "float16", "float16", 10),
          ("f64", "double", "float64", 11), ("u32", "uint32", "uint32", 12), ("u64", "uint64", "uint64", 13),
          ("bf16", "bfloat16", "bfloat16", 16)]
TYPE_TEXT = {row[0]: f"tensor({row[1]})" for row in _TYPES}
NUMPY_TYPE = {row[0]: row[2] for row in _TYPES}
DTYPE_OF_TEXT = {text: dtype for dtype, text in TYPE_TEXT.items()}
TYPE_OF_NUMBER = {row[3]: TYPE_TEXT[row[0]] for row in _TYPES}


def _type_named(element_type: Any) -> str:
    """Lamina's name of a type that NumPy, or a number of ONNX, names."""
    try:
        asked = element_type if isinstance(element_type, int) else np.dtype(element_type).name
    except TypeError:
        asked = ""
    for row in _TYPES:
        if asked in row[2:]:
            return row[0]
    raise BindingError(f"element_type: expected a type of NumPy's or a number of ONNX's, got {element_type}")


def _place(device_type: str, device_id: int) -> str:
    """Lamina's name of a device."""
    kind = device_type.lower()
    if kind not in ("cpu", "cuda"):
        raise BindingError(f"device_type: expected cpu or cuda, got {device_type}")
    return "cpu" if kind == "cpu" else f"cuda:{device_id}"


class OrtValue:
    """A tensor on the host or on a GPU. np.asarray(value), torch.from_dlpack(value) and the like share its memory."""

    def __init__(self, tensor: Any) -> None:
        self.tensor: Tensor = tensor if isinstance(tensor, Tensor) else tensor_of(tensor)

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Any, /, device_type: str = "cpu", device_id: int = 0) -> Self:
        """The array's own memory, or a copy on a GPU."""
        array = np.asarray(numpy_obj, order="C")
        place = _place(device_type, device_id)
        if place == "cpu":
            return cls(array)
        value = cls.ortvalue_from_shape_and_type(array.shape, array.dtype, device_type, device_id)
        value.update_inplace(array)
        return value

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0) -> Self:
        with raised_as(BindingError):
            return cls(new_tensor(list(shape), _type_named(element_type), _place(device_type, device_id)))

    @classmethod
    def from_dlpack(cls, data: Any, /) -> Self:
        """The memory of a tensor of PyTorch, CuPy, JAX, ..."""
        return cls(data)

    def update_inplace(self, data: Any) -> None:
        """Copies here the elements of an array or of an OrtValue, which are as many and of the same type."""
        with raised_as(BindingError):
            copy_into(self.tensor, data.tensor if isinstance(data, OrtValue) else np.asarray(data, order="C"))

    def numpy(self) -> Any:
        """On the host, the same memory."""
        return self.tensor.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return np.array(array, dtype) if copy else np.asarray(array, dtype)

    def __dlpack__(self, **asked: Any) -> Any:
        return self.tensor.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def shape(self) -> list[int]:
        return list(self.tensor.shape)

    def data_ptr(self) -> int:
        return address_of(self.tensor)

    def device_name(self) -> str:
        return self.tensor.device.partition(":")[0]

    def data_type(self) -> str:
        return TYPE_TEXT[self.tensor.dtype]

    def element_type(self) -> int:
        return next(row[3] for row in _TYPES if row[0] == self.tensor.dtype)

    def tensor_size_in_bytes(self) -> int:
        dtype = self.tensor.dtype
        return math.prod(self.tensor.shape) * (2 if dtype == "bf16" else np.dtype(NUMPY_TYPE[dtype]).itemsize)

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False


class IOBinding:
    """Which memory a run reads and writes: session.io_binding() makes one, session.run_with_iobinding() runs with it.

    Inputs and outputs may each be on the host or on the session's GPU. When the run returns, its outputs are computed.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Tensor] = {}
        self._asked: dict[str, str | Tensor] = {}
        """Where each output shall be: a device, or memory that is there"""
        self._outputs: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Iterable[int],
                   buffer_ptr: int) -> None:
        """Memory that whoever calls keeps: x.data_ptr() of PyTorch's."""
        with raised_as(BindingError):
            memory = tensor_at(buffer_ptr, list(shape), _type_named(element_type), _place(device_type, device_id))
        self._bind(self._inputs, "input", self._session.bindable_inputs, name, memory)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._bind(self._inputs, "input", self._session.bindable_inputs, name, ortvalue.tensor)

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Iterable[int] | None = None, buffer_ptr: int | None = None) -> None:
        """Memory that whoever calls keeps, or, without buffer_ptr, new memory of that device."""
        place: str | Tensor = _place(device_type, device_id)
        if buffer_ptr is not None:
            if element_type is None or shape is None:
                raise BindingError(f"bind_output: {name}: expected element_type and shape of the memory at buffer_ptr")
            with raised_as(BindingError):
                place = tensor_at(buffer_ptr, list(shape), _type_named(element_type), str(place))
        self._bind(self._asked, "output", self._session.output_names, name, place)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._bind(self._asked, "output", self._session.output_names, name, ortvalue.tensor)

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._asked.clear()
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Waits for what the default stream of the session's GPU was given."""
        synchronize(self._session.device)

    def synchronize_outputs(self) -> None:
        """Changes nothing: a run returns when they are computed."""

    def get_outputs(self) -> list[OrtValue]:
        """Of the last run, in the order in which they were bound."""
        return list(self._outputs)

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        return [np.array(value.numpy()) for value in self._outputs]

    @staticmethod
    def _bind(bound: dict[str, Any], kind: str, names: Sequence[str], name: str, what: Any) -> None:
        if name not in names:
            raise BindingError(f"bind_{kind}: there is no {kind} {name}; expected one of {', '.join(names)}")
        bound[name] = what

    def run(self, stop: Stop | None = None) -> None:
        session = self._session
        missing = [name for name in session.input_names if name not in self._inputs]
        if missing:
            raise BindingError(f"run: input {', '.join(missing)} is not bound; bind_cpu_input or bind_input does it")
        if not self._asked:
            raise BindingError("run: no output is bound; bind_output does it")
        with raised_as(BindingError), session.plan_for(self._inputs) as plan:
            places = [self._asked.get(name, session.device) for name in plan.output_names]
            outputs = [new_tensor(list(shape), dtype, place) if isinstance(place, str) else place
                       for place, shape, dtype in zip(places, plan.output_shapes, plan.output_dtypes, strict=True)]
            plan({name: self._inputs[name] for name in plan.input_names}, out=outputs, stream=session.stream, stop=stop)
            synchronize(session.device, session.stream or 0)
        self._outputs = [OrtValue(outputs[plan.output_names.index(name)]) for name in self._asked]
