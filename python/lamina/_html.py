"""What a notebook and an interpreter show of answers and models."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import Any


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The cells as texts; those that are wanted as they are say so by `Bar`."""
    def row(cells: Iterable[object], kind: str) -> str:
        return "<tr>" + "".join(f"<{kind} style='text-align:left'>{cell if isinstance(cell, Bar) else escape(str(cell))}</{kind}>"
                                for cell in cells) + "</tr>"

    return f"<table><thead>{row(head, 'th')}</thead><tbody>{''.join(row(cells, 'td') for cells in rows)}</tbody></table>"


def brief(row: Any) -> str:
    """The text of a named tuple. Of the bytes of a file, of pixels, and of all that is long it says what they are."""
    def text_of(value: Any) -> str:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"<{len(value)} bytes>"
        if math.prod(getattr(value, "shape", ())) > 16:
            return f"<{value.dtype} {list(value.shape)}>"
        text = repr(value)
        return text if len(text) < 400 else f"<{type(value).__name__} of {len(value)}>" if hasattr(value, "__len__") else f"{text[:400]}..."

    return f"{type(row).__name__}({', '.join(f'{name}={text_of(value)}' for name, value in zip(row._fields, row))})"


class Bar:
    """A share of one as a bar and a number; of what is no share the number alone."""

    def __init__(self, share: float) -> None:
        self.share = share

    def __str__(self) -> str:
        if not 0 <= self.share <= 1:
            return f"{self.share:.4g}"
        return (f"<div style='display:inline-block;width:8em;background:rgba(128,128,128,0.25)'><div style='width:{100 * self.share:.1f}%;"
                f"height:0.7em;background:#b5651d'></div></div> {100 * self.share:.1f} %")


class Classes(list[tuple[str, float]]):
    """A photograph's classes and their scores, the best first."""

    def _repr_html_(self) -> str:
        return table(("class", "score"), ((name, Bar(score)) for name, score in self))
