"""Files in memory, where a file is taken."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Protocol

from ._core import NoSuchFile


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


def named(source: Source) -> Source:
    """The file of "digits", which ships, and of "classifier", as the command's --model knows them; else what is given."""
    if not isinstance(source, str) or source not in ("digits", "classifier") or os.path.exists(source):
        return source
    folder = pathlib.Path(__file__).parent if source == "digits" else data_folder()
    file = folder / f"{source}.safetensors"
    if not file.exists():
        raise NoSuchFile("digits: this installation has no such model; the clone has weights/digits.safetensors" if source == "digits" else
                         "classifier: python -m lamina.get_classifier brings it")
    return file


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
