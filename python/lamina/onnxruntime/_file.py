"""What a model file tells of itself to programs written for ONNX Runtime."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._core import ModelFile
from ._values import TYPE_OF_NUMBER

if TYPE_CHECKING:
    from .._sources import Path


@dataclass(frozen=True)
class NodeArg:
    """An input or an output. An extent is a number, a name where the model leaves it open, or None where it has no name
    either."""

    name: str
    type: str
    shape: list[int | str | None]


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


@dataclass
class Declared:
    """The metadata of an .onnx file, and its inputs and outputs as it says them. A file of Lamina's says none."""

    metadata: ModelMetadata
    inputs: list[NodeArg] = field(default_factory=list)
    outputs: list[NodeArg] = field(default_factory=list)
    defaults: list[NodeArg] = field(default_factory=list)
    """Inputs that have a value, if none is given"""


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
        if length > len(message) - place:
            raise ValueError("the message ends early")
        if kind == 2:
            value = message[place:place + length]
        place += length
        yield key >> 3, value


def _first(message: memoryview, number: int) -> Any:
    return next((value for found, value in _fields(message) if found == number), None)


def _text(value: memoryview) -> str:
    return str(value, "utf-8", "replace")


def _port(value_info: memoryview, extents: Mapping[str, int]) -> NodeArg:
    """Of a ValueInfoProto; its type is "" where that is not said, its shape [] where that is not or it is a scalar."""
    name, of_type = "", memoryview(b"")
    for number, value in _fields(value_info):
        if number == 1:
            name = _text(value)
        elif number == 2:
            of_type = _first(value, 1) or of_type
    shape: list[int | str | None] = []
    for _, dimension in _fields(_first(of_type, 2) or memoryview(b"")):
        extent: int | str | None = None
        denoted = None
        for kind, value in _fields(dimension):
            if kind == 1 and value < 1 << 63:  # not negative
                extent = value
            elif kind == 2:
                extent = _text(value) or None
            elif kind == 3:
                denoted = extents.get("/" + _text(value))
        if not isinstance(extent, int):
            extent = extents.get(extent or "", denoted) or extent
        shape.append(extent)
    return NodeArg(name, TYPE_OF_NUMBER.get(_first(of_type, 1), ""), shape)


_OF_MODEL = {2: "producer_name", 4: "domain", 5: "version", 6: "description"}
_OF_GRAPH = {2: "graph_name", 10: "graph_description"}
_GRAPH = 7


def _contents(model: Path | bytes) -> Any:
    if isinstance(model, bytes):
        return model
    with open(model, "rb") as opened:
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def is_model(model: Path | bytes) -> bool:
    """Whether it can be one, and is whole: of what cannot be read it says who is to blame."""
    try:
        content = _contents(model)
        return content[8:9] == b"{" or _GRAPH in [number for number, _ in _fields(memoryview(content))]
    except (OSError, ValueError, LookupError):
        return False


def declared_in(model: Path | bytes, file: ModelFile, extents: Mapping[str, int]) -> Declared:
    """Of a model file that was read before, and is well-formed."""
    noted = ModelMetadata(dict(file.metadata), file.description)
    content = _contents(model)
    if content[8:9] == b"{" and int.from_bytes(content[:8], "little") < len(content):
        return Declared(noted)  # safetensors
    declared = Declared(noted)
    noted.version = (1 << 63) - 1  # what ONNX Runtime says of a file that does not
    has_value = set()

    def take(names: dict[int, str], number: int, value: Any) -> None:
        if number in names:
            setattr(noted, names[number], value if isinstance(value, int) else _text(value))

    for number, value in _fields(memoryview(content)):
        take(_OF_MODEL, number, value)
        if number != _GRAPH:
            continue
        for inner, part in _fields(value):
            take(_OF_GRAPH, inner, part)
            if inner == 5:  # an initializer
                has_value.add(_text(_first(part, 8) or memoryview(b"")))
            elif inner in (11, 12):
                (declared.inputs if inner == 11 else declared.outputs).append(_port(part, extents))
    declared.defaults = [port for port in declared.inputs if port.name in has_value]
    declared.inputs = [port for port in declared.inputs if port.name not in has_value]
    return declared
