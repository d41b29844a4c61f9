"""Files in memory, where a file is taken."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class OpenFile(Protocol):
    """Opened as "rb", an io.BytesIO, ..."""

    def read(self) -> bytes: ...


Path = str | os.PathLike[str]
Source = Path | bytes | bytearray | memoryview | OpenFile
"""A path, the bytes of a file, or an open file"""


@contextmanager
def as_path(source: Source) -> Iterator[Path]:
    """A path to what the source holds. Whoever maps the file keeps its pages."""
    if isinstance(source, (str, os.PathLike)):
        yield source
        return
    content: Any = source if isinstance(source, (bytes, bytearray, memoryview)) else source.read()
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f"expected a path, the bytes of a file, or a file opened as \"rb\", got {type(source).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in memory")
        with open(path, "wb") as file:
            file.write(content)
        yield path
