"""What ONNX Runtime's sessions and runs can be told, and what a model file tells of itself there."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ._core import Error, ModelFile


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


class _Options:
    """Fields that have names; another is a mistake of the program's."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        super().__setattr__(name, value)

    def _add(self, key: str, value: str) -> None:
        self._entries[key] = value

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise Error(f"{type(self).__name__}: there is no entry {key}")
        return self._entries[key]


class RunOptions(_Options):
    """Nothing changes by them."""

    log_severity_level = 2
    log_verbosity_level = 0
    logid = ""
    only_execute_path_to_fetches = False
    terminate = False
    add_run_config_entry = _Options._add
    get_run_config_entry = _Options._get


class SessionOptions(_Options):
    """intra_op_num_threads and ORT_DISABLE_ALL mean here what they mean there. The other fields are about ONNX Runtime's
    memory, logs and threads between layers, and change nothing. What would change a result or write a file is refused."""

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

    def add_free_dimension_override_by_name(self, name: str, extent: int) -> None:
        """Changes nothing: plans are compiled for the extents that come."""

    def add_free_dimension_override_by_denotation(self, denotation: str, extent: int) -> None:
        """Changes nothing: plans are compiled for the extents that come."""

    def register_custom_ops_library(self, path: str) -> None:
        raise Error(f"SessionOptions: {path}: libraries with operators for ONNX Runtime are not loaded; "
                    "docs/custom_layers.md has Lamina's own way")

    def add_initializer(self, name: str, value: object) -> None:
        raise Error(f"SessionOptions: {name}: weights come from the model file, not from add_initializer")

    def add_external_initializers(self, names: list[str], values: list[Any]) -> None:
        raise Error(f"SessionOptions: {', '.join(names)}: weights come from the model file, not from "
                    "add_external_initializers")

    def checked(self) -> SessionOptions:
        if self.optimized_model_filepath:
            raise Error(f"SessionOptions: optimized_model_filepath {self.optimized_model_filepath}: no optimized model "
                        "is written; `lamina convert` writes a model of Lamina's")
        return self


@dataclass
class ModelMetadata:
    """What the exporter noted: custom_metadata_map["names"] of a detector, for one."""

    custom_metadata_map: dict[str, str] = field(default_factory=dict)
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    graph_name: str = ""
    producer_name: str = ""
    version: int = 0


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Number and value of the fields of a message of Protocol Buffers."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while place < len(message):
        key = varint()
        kind = key & 7
        value: Any = varint() if kind in (0, 2) else 0
        length = {0: 0, 1: 8, 2: value, 5: 4}[kind]
        if kind == 2:
            value = message[place:place + length]
        place += length
        yield key >> 3, value


_OF_MODEL = {2: "producer_name", 4: "domain", 5: "version", 6: "description"}
_OF_GRAPH = {2: "graph_name", 10: "graph_description"}
_GRAPH = 7


def metadata_of(path: str | os.PathLike[str], file: ModelFile) -> ModelMetadata:
    """Of a model file that was read before, and is well-formed."""
    noted = ModelMetadata(dict(file.metadata), file.description)

    def take(names: dict[int, str], number: int, value: Any) -> None:
        if number in names:
            setattr(noted, names[number], value if isinstance(value, int) else str(value, "utf-8", "replace"))

    with open(path, "rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    if mapped[8:9] == b"{" and int.from_bytes(mapped[:8], "little") < len(mapped):
        return noted  # safetensors
    for number, value in _fields(memoryview(mapped)):
        take(_OF_MODEL, number, value)
        if number == _GRAPH:
            for inner, text in _fields(value):
                take(_OF_GRAPH, inner, text)
    return noted
