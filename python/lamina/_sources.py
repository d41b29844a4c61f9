"""Files in memory, where a file is taken."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Protocol

from ._core import NoSuchFile, nearest_text


class OpenFile(Protocol):
    """Opened as "rb", an io.BytesIO, ..."""

    def read(self) -> bytes: ...


Path = str | os.PathLike[str]
Source = Path | bytes | bytearray | memoryview | OpenFile
"""A path, the bytes of a file, or an open file"""


def data_folder() -> pathlib.Path:
    """Where models of the user's are that have names: the command finds them there too."""
    home = os.environ.get("XDG_DATA_HOME", "")
    return (pathlib.Path(home) if home.startswith("/") else pathlib.Path.home() / ".local/share") / "lamina"


MODELS = ("digits", "alexnet-conv1", "classifier")


def model_file(source: Source) -> Path | bytes:
    """The file of a model that has a name, as the command's --model knows it: of one that ships, or of "classifier"; else what is
    given, as `file_of` has it."""
    if not isinstance(source, str) or not source.isprintable() or not source or "/" in source or "." in source or os.path.exists(source):
        return file_of(source)
    file = (data_folder() if source == "classifier" else pathlib.Path(__file__).parent) / f"{source}.safetensors"
    if source in MODELS and file.exists():
        return file
    if source == "classifier":
        raise NoSuchFile("classifier: python -m lamina.get_classifier brings it")
    if source in MODELS:
        raise NoSuchFile(f"{source}: this installation has no such model; the clone has weights/{source}.safetensors")
    raise NoSuchFile(f"cannot read {source}: there is no such file, and no model of that name{nearest_text(source, MODELS)}")


def file_of(source: Source) -> Path | bytes:
    """A path as it is; of all else the bytes."""
    if source == "":
        raise NoSuchFile("expected the path of a file, got an empty text")
    if isinstance(source, (str, os.PathLike, bytes)):
        return source
    content: Any = source if isinstance(source, (bytearray, memoryview)) else getattr(source, "read", lambda: None)()
    if not isinstance(content, (bytes, bytearray, memoryview)):
        hint = "; call SerializeToString() for its bytes" if hasattr(source, "SerializeToString") else ""
        raise TypeError(f"expected a path, the bytes of a file, or a file opened as \"rb\", got {type(source).__name__}{hint}")
    return bytes(content)
