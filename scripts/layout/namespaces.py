"""Tests outside a namespace of their file's name, which meet another's names where several files are compiled together."""

import re
from pathlib import Path

OPENED = re.compile(r"^namespace (lamina[\w:]*) {$", re.M)


def shared(texts):
    """`texts` by file. Where there is one, as an error of the file's line."""
    for name, text in texts.items():
        opened = OPENED.search(text) if name.startswith("tests/") and name.endswith("_test.cpp") else None
        if opened and not opened[1].endswith(Path(name).stem):
            line = text.count("\n", 0, opened.start()) + 1
            yield f"{name}:{line}: {opened[1]}: the namespace of a test ends with its file's name, {Path(name).stem}"
