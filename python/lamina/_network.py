"""A network: a graph, how a photograph becomes its input and a score a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._core import Graph, Plan, PlanMemory, Preprocess

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import CompileOptions


class Network:
    """What plans and pools are compiled from: all of a Model but its classifiers, which are made of pools."""

    def __init__(self, graph: Graph, preprocess: Preprocess | None = None, labels: Sequence[str] = (),
                 warnings: Sequence[str] = ()) -> None:
        self.graph = graph
        self.preprocess = preprocess
        self.labels = list(labels)
        self.warnings = list(warnings)

    def compile(self, **options: Unpack[CompileOptions]) -> Plan:
        """A Plan for one device, batch and precision; CompileOptions lists the keywords."""
        return self.graph.compile(self.preprocess, **options)

    def plan_memory(self, **options: Unpack[CompileOptions]) -> PlanMemory:
        """The bytes that `compile` with these options will hold, found out without taking any on a GPU."""
        return self.graph.plan_memory(self.preprocess, **options)

    def plan_summary(self, **options: Unpack[CompileOptions]) -> str:
        """What `compile(...).summary()` would say; with description= also of a device that is not there."""
        return self.graph.plan_summary(self.preprocess, **options)

    def summary(self, batch: int = 1) -> str:
        """A table of the nodes."""
        return self.graph.summary(batch)

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.graph.input_names

    @property
    def input_shapes(self) -> tuple[tuple[int | str, ...], ...]:
        """ "N" is the batch, "?" an extent that is left open."""
        return self.graph.input_shapes

    @property
    def output_names(self) -> tuple[str, ...]:
        return self.graph.output_names
