"""What SessionOptions.enable_profiling writes: a trace for Chrome's about:tracing and for Perfetto."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._core import Plan


class Trace:
    """The runs of a session. Before each the same is run once a step at a time: these are its steps."""

    def __init__(self, prefix: str) -> None:
        self.start = time.time_ns()
        self.name = f"{prefix}{time.strftime('_%Y-%m-%d_%H-%M-%S')}_{self.start // 1_000_000 % 1000:03}.json"
        self.events: list[dict[str, Any]] = []

    def _add(self, kind: str, name: str, begin: int, microseconds: float, told: Mapping[str, object]) -> None:
        self.events.append({"cat": kind, "pid": os.getpid(), "tid": threading.get_native_id(), "dur": round(microseconds),
                            "ts": (begin - self.start) // 1000, "ph": "X", "name": name, "args": told})

    @contextmanager
    def run(self, plan: Plan, feed: Mapping[str, Any]) -> Iterator[None]:
        steps, begin = plan.profile(feed, 1), time.time_ns()
        yield
        self._add("Session", "model_run", begin, (time.time_ns() - begin) / 1000, {})
        for step in steps:
            took = step.pop("milliseconds")
            self._add("Node", f"{step['name']}_kernel_time", begin, took * 1000, step)
            begin += round(took * 1e6)

    def write(self) -> str:
        with open(self.name, "w") as file:
            json.dump(self.events, file)
        return self.name
