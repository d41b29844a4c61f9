"""What was compiled, kept to be used again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from ._core import Graph

Compiled = TypeVar("Compiled")

ROOM = 512 << 20  # bytes: an OCR's recogniser has a plan of 1 to 8 MB for each width of a line


def memory_of(one: Any) -> float:
    """The bytes that nothing else shares, where it says how many."""
    memory: Any = getattr(one, "memory", None)
    return float(memory.activations + memory.workspace) if hasattr(memory, "workspace") else ROOM


class Idle(Generic[Compiled]):
    """What was compiled and nobody uses at the moment, of the kinds that were used last, to be used again: of so many kinds, or,
    where nobody says how many, of four, and of more while all of it has room."""

    def __init__(self, kinds: int | None = None) -> None:
        self.kinds, self.room = (4, ROOM) if kinds is None else (kinds, 0)
        self.idle: dict[str, list[Compiled]] = {}
        self.bytes: dict[str, float] = {}  # of one of each kind

    @contextmanager
    def one(self, graph: Graph, options: dict[str, Any], make: Callable[[], Compiled]) -> Iterator[Compiled]:
        """One for this thread: of the graph as it is now, and compiled with these options."""
        if "description" in options:  # whose text says less than it is
            yield make()
            return
        values = options.get("constants", {})
        if not all(isinstance(value, np.ndarray) for value in values.values()):
            yield make()
            return
        if values:
            texts = [(name, value.dtype.str, value.shape, sha256(value.tobytes()).digest()) for name, value in values.items()]
            options = {**options, "constants": sorted(texts)}
        # Threads and GPUs stay behind when a process forks.
        kind = repr((os.getpid(), graph.changes, sorted(options.items(), key=lambda item: item[0])))
        idle = self.idle.setdefault(kind, [])
        try:
            one = idle.pop()
            made = False
        except IndexError:
            made = True
            try:
                one = make()
            except BaseException:
                if not idle:
                    self.idle.pop(kind, None)
                raise
        try:
            yield one
        finally:
            idle.append(one)
            self.idle[kind] = self.idle.pop(kind, idle)
            if kind not in self.bytes:
                self.bytes[kind] = memory_of(one)
            if made:
                self.drop_old()

    def drop_old(self) -> None:
        """What was used longest ago, until the rest has room."""
        kept = list(self.idle.items())
        used = sum(self.bytes.get(kind, 0) * len(some) for kind, some in kept)
        for kind, some in kept[:-self.kinds]:
            if used <= self.room:
                return
            used -= self.bytes.pop(kind, 0) * len(some)
            self.idle.pop(kind, None)
