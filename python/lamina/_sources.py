"""Files in memory, where a file is taken."""

from __future__ import annotations

import os
from typing import Any, Protocol

from ._core import NoSuchFile


class OpenFile(Protocol):
    """Opened as "rb", an io.BytesIO, ..."""

    def read(self) -> bytes: ...


Path = str | os.PathLike[str]
Source = Path | bytes | bytearray | memoryview | OpenFile
"""A path, the bytes of a file, or an open file"""


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
