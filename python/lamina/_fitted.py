"""Arrays as a network's input takes them: without gaps, of its own type, in its order of dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._core import Error
from ._shapes import text_of

KINDS = {"f32": "f4", "f16": "f2", "f64": "f8", "i64": "i8", "i32": "i4", "i16": "i2", "i8": "i1", "u8": "u1", "u16": "u2",
          "u32": "u4", "u64": "u8", "bool": "?"}


def host_array(x: Any) -> Any:
    """Of NumPy's or of another library's on the host; None of what is no such array."""
    device = getattr(x, "__dlpack_device__", None)
    if not hasattr(x, "__array__") or (device is not None and device()[0] != 1):  # kDLCPU
        return None
    try:
        return np.asarray(x.detach() if hasattr(x, "detach") else x)
    except (TypeError, RuntimeError):  # of a type that NumPy has not, such as PyTorch's bfloat16
        return None


def converted(array: Any, kind: Any) -> Any:
    """The same numbers as another type; an Error where it lacks one of them."""
    if kind.kind not in "iu" or np.can_cast(array.dtype, kind):
        return array.astype(kind, copy=False)
    with np.errstate(invalid="ignore"):
        found = array.astype(kind)
    lost = (found != array) | ((found < 0) != (array < 0))  # the largest number without a sign is equal to -1
    if lost.any():
        raise Error(f"expected whole numbers from {np.iinfo(kind).min} to {np.iinfo(kind).max}, got {array[lost][0]}")
    return found


def numbers(x: Any, kind: Any) -> Any:
    """An array of that type of a number, or of lists of them. Raises Error where something is none, as None or "5"."""
    try:
        array = np.asarray(x)
        if array.dtype.kind not in "biuf":  # of texts, of objects
            for each in np.asarray(x, object).flat:
                if not isinstance(each, (int, float, np.number, np.bool_, list, tuple)):
                    raise Error(f"expected numbers, got {each!r:.80}")
            array = np.asarray(x, kind)
    except (OverflowError, TypeError, ValueError) as error:
        if isinstance(error, Error):
            raise
        raise Error(f"expected numbers in lists of the same lengths: {error}") from None
    return converted(array, kind)


def fitted(x: Any, declared: tuple[int | str, ...] = (), dtype: str = "") -> Any:
    """An array without gaps, of the input's own type of floats or of integers, and [N, C, H, W] of [N, H, W, C]; copied where
    it is not so already. Numbers and lists become one."""
    kind = np.dtype(KINDS[dtype]) if dtype in KINDS else None
    if kind is not None and isinstance(x, (list, int, float)):
        return numbers(x, kind)
    array = host_array(x)
    if array is None and dtype == "f32" and str(getattr(x, "dtype", "")) == "torch.bfloat16":
        return fitted(x.float(), declared, dtype)  # which NumPy has not
    if array is None:
        return x.contiguous() if hasattr(x, "contiguous") else x  # PyTorch's
    if kind is not None and (array.dtype.kind == kind.kind or {array.dtype.kind, kind.kind} == set("iu")
                             or (dtype == "f32" and array.dtype.name == "bfloat16")):  # of JAX
        array = converted(array, kind)
    own = kind is None or array.dtype == kind  # else it is refused, by the shape that it came with
    if own and len(declared) == array.ndim == 4 and array.shape[1] != declared[1] == array.shape[3]:
        array = array.transpose(0, 3, 1, 2)
    return np.asarray(array, order="C")


def require_fits(name: str, array: Any, declared: tuple[int | str, ...], dtype: str) -> None:
    """Raises Error, in the model's words, of an array that no plan of it takes."""
    given, kind = tuple(getattr(array, "shape", ())), own_kind(array)
    free = "..." in declared or (len(given) == len(declared) and all(one == two or isinstance(two, str) for one, two in zip(given, declared)))
    if kind == dtype and free:
        return
    hint = f'; x.astype("{np.dtype(KINDS[dtype]).name}") has that type' if free and isinstance(array, np.ndarray) and array.dtype.kind in "biuf" and dtype in KINDS else ""
    raise Error(f"{name}: expected {dtype} {text_of(declared)}, got {kind} {text_of(given)}{hint}")


def own_kind(array: Any) -> str:
    """An array's type as Lamina calls it: "f32"."""
    kind = str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")
    return {np.dtype(code).name: own for own, code in KINDS.items()}.get(kind, kind)


def require_rank(name: str, array: Any, declared: tuple[int | str, ...], dtype: str, classifies: bool) -> None:
    """Raises Error for an image where a batch of them is expected."""
    given = getattr(array, "shape", declared)
    if "..." not in declared and len(given) == len(declared) - 1 and declared[0] in ("N", "?", 1):
        is_photo = classifies and len(given) == 3 and 3 in (given[0], given[2])
        photo = ", and classify takes a photograph as it is" if is_photo else ""
        raise Error(f"{name}: expected {dtype} {text_of(declared)}, got {own_kind(array)} {text_of(given)}; x[None] is a batch of one{photo}")
