"""What a session is given, and errors at once where it is something else."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .._core import cuda_device_count

DEVICES = {"CUDAExecutionProvider": "cuda", "CPUExecutionProvider": "cpu"}

Provider = str | tuple[str, Mapping[str, Any]]


def get_available_providers() -> list[str]:
    """The devices of this machine, by the names that ONNX Runtime has for them."""
    return [name for name, device in DEVICES.items() if device == "cpu" or cuda_device_count() > 0]


def expect(kind: type, value: object, name: str) -> None:
    """Raises TypeError unless it is one of these, or None."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__} or None, got {type(value).__name__}")


def device_of(providers: str | Sequence[Provider] | None,
               options: Sequence[Mapping[str, Any]] | None) -> tuple[str, Mapping[str, Any]]:
    """The first provider that is here, and what it was told. The CPU's is there even if nobody asked for it."""
    some = [providers] if isinstance(providers, str) else list(providers or get_available_providers())
    if options and len(options) != len(some):
        raise ValueError(f"provider_options: expected one for each of {len(some)} providers, got {len(options)}")
    for i, asked in enumerate(some):
        name, given = asked if isinstance(asked, tuple) and len(asked) == 2 else (asked, options[i] if options else {})
        if not isinstance(name, str) or not isinstance(given, Mapping):
            raise ValueError(f"providers: expected names, or tuples of a name and a dict of options, got {asked!r}")
        if name in get_available_providers():
            return name, given
        warnings.warn(f"{name} is not here; there are {', '.join(get_available_providers())}", stacklevel=5)
    return "CPUExecutionProvider", {}
