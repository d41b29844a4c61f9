"""What ONNX Runtime's sessions and runs can be told."""

from __future__ import annotations

import os
from enum import IntEnum
from typing import Any, SupportsIndex

import numpy as np

from .._core import Error, Stop
from ._errors import RuntimeException


class GraphOptimizationLevel(IntEnum):
    """Of SessionOptions: all but ORT_DISABLE_ALL are the same here."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Of SessionOptions; nothing changes by it here."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Of SessionOptions; nothing changes by it here."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


_EXPECTED = {bool: "True or False", int: "a whole number", str: "a text"}


def _as(kind: type, value: object, name: str) -> object:
    """As a field of that type keeps it. Raises TypeError."""
    if kind is bool and isinstance(value, (bool, int, np.bool_)):
        return bool(value)
    if kind is str and isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if kind not in (bool, str) and isinstance(value, SupportsIndex):
        return kind(value.__index__())
    raise TypeError(f"{name}: expected {_EXPECTED.get(kind, f'one of {kind.__name__}')}, got {value!r}")


class _Options:
    """Fields that have names; another is a mistake of the program's."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            if not hasattr(type(self), name):
                raise AttributeError(f"{type(self).__name__} has no {name}")
            usual = getattr(type(self), name)
            value = _as(bool if isinstance(usual, property) else type(usual), value, f"{type(self).__name__}.{name}")
        super().__setattr__(name, value)

    def _add(self, key: str, value: str) -> None:
        self._entries[key] = value

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeException(f"{type(self).__name__}: there is no entry {key}")
        return self._entries[key]


class RunOptions(_Options):
    """Once terminate is set, by any thread, runs that were given this end with Fail. Nothing changes by the others."""

    log_severity_level = -1  # as the session has it
    log_verbosity_level = 0
    logid = ""
    only_execute_path_to_fetches = False
    add_run_config_entry = _Options._add
    get_run_config_entry = _Options._get

    def __init__(self) -> None:
        super().__init__()
        self._stop = Stop()

    @property
    def terminate(self) -> bool:
        return self._stop.requested

    @terminate.setter
    def terminate(self, value: bool) -> None:
        if value:
            self._stop.request()
        elif self._stop.requested:
            self._stop = Stop()


class SessionOptions(_Options):
    """intra_op_num_threads and ORT_DISABLE_ALL mean here what they mean there. The other fields are about ONNX Runtime's
    memory, logs and threads between layers, and change nothing. To optimized_model_filepath goes the model as it is: what
    is done to it here is done anew in each process. What would change a result is refused."""

    intra_op_num_threads = 0
    graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL

    enable_cpu_mem_arena = True
    enable_mem_pattern = True
    enable_mem_reuse = True
    enable_profiling = False
    execution_mode = ExecutionMode.ORT_SEQUENTIAL
    execution_order = ExecutionOrder.DEFAULT
    inter_op_num_threads = 0
    log_severity_level = 2
    log_verbosity_level = 0
    logid = ""
    optimized_model_filepath = ""
    profile_file_prefix = "onnxruntime_profile_"
    use_deterministic_compute = False
    use_per_session_threads = True
    add_session_config_entry = _Options._add
    get_session_config_entry = _Options._get

    def __init__(self) -> None:
        super().__init__()
        self._extents: dict[str, int] = {}

    @property
    def extents(self) -> dict[str, int]:
        """Of names that the model has for open extents, and of denotations, "/DATA_BATCH"."""
        return self._extents

    def add_free_dimension_override_by_name(self, name: str, extent: int) -> None:
        """An extent that the model leaves open by this name is taken to be that."""
        self._extents[name] = extent

    def add_free_dimension_override_by_denotation(self, denotation: str, extent: int) -> None:
        """An extent that the model denotes so is taken to be that."""
        self._extents["/" + denotation] = extent

    def register_custom_ops_library(self, path: str) -> None:
        raise Error(f"SessionOptions: {path}: libraries with operators for ONNX Runtime are not loaded; "
                    "docs/custom_layers.md in Lamina's repository has Lamina's own way")

    def add_initializer(self, name: str, value: object) -> None:
        raise Error(f"SessionOptions: {name}: weights come from the model file, not from add_initializer")

    def add_external_initializers(self, names: list[str], values: list[Any]) -> None:
        raise Error(f"SessionOptions: {', '.join(names)}: weights come from the model file, not from "
                    "add_external_initializers")

