"""What a session takes and gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .._core import Error, Graph, Unsupported
from .._fitted import require_fits
from .._shapes import outputs_of
from ._errors import NotImplemented
from ._file import Declared, NodeArg
from ._values import DTYPE_OF_TEXT, TYPE_TEXT


class Ports:
    """The inputs and outputs of a graph, as its file declares them and these options of `compile` have them."""

    def __init__(self, graph: Graph, declared: Declared, options: Mapping[str, Any]) -> None:
        self._graph, self._declared, self._options = graph, declared, options
        self.inputs = self._of_inputs()
        self._outputs: list[NodeArg] | None = None

    def require_supported(self) -> None:
        """Raises NotImplemented of a model with open extents that none of two sizes makes one that can run."""
        for side in (64, 96):
            shapes = {name: [{"N": 1, "?": side}.get(str(extent), extent) for extent in shape]
                      for name, shape in zip(self._graph.input_names, self._graph.input_shapes) if "?" in shape}
            try:
                self._graph.output_ports(**{**self._options, "input_shapes": {**shapes, **self._options.get("input_shapes", {})}})
                return
            except Unsupported as error:
                last = str(error)
            except Error:  # such sizes do not fit, or values decide shapes
                return
        raise NotImplemented(last)

    def outputs(self, names: Sequence[str]) -> list[NodeArg]:
        """As the file says them, with the numbers that follow for extents that it names. Where it says none, an extent that
        is not the same for all inputs is None."""
        if self._outputs is None:
            declared = {port.name: self._as_taken(port, "output_format") for port in self._declared.outputs}
            named = {extent for port in self.inputs for extent in port.shape}
            settled = {name for name, port in declared.items()
                       if port.shape and all(isinstance(extent, int) or extent in named for extent in port.shape)}
            found = {} if set(names) <= settled else self._by_trial()
            self._outputs = []
            for name in names:
                said, tried = declared.get(name), found.get(name)
                if said and tried and len(said.shape) == len(tried.shape):
                    tried = NodeArg(name, said.type or tried.type,
                                    [two if isinstance(two, int) else one for one, two in zip(said.shape, tried.shape)])
                self._outputs.append(tried or said or NodeArg(name, "", []))
        return self._outputs

    @contextmanager
    def naming(self, feed: Mapping[str, Any]) -> Iterator[None]:
        """An Error of arrays that do not fit says the shapes as the file does, and not those of a plan that nobody asked for."""
        try:
            yield
        except Error:
            for port in self.inputs:
                if port.name in feed:
                    require_fits(port.name, feed[port.name], tuple("?" if extent is None else extent for extent in port.shape), DTYPE_OF_TEXT[port.type])
            raise

    def _of_inputs(self) -> list[NodeArg]:
        """As the file says them, and of Lamina's files the network."""
        graph = self._graph
        declared = {port.name: port for port in self._declared.inputs}
        ports = []
        for name, shape, dtype in zip(graph.input_names, graph.input_shapes, graph.input_dtypes, strict=True):
            own = NodeArg(name, TYPE_TEXT[dtype], [None if extent == "?" else extent for extent in shape if extent != "..."])
            if name not in self._options.get("constants", ()):
                ports.append(self._as_taken(declared.get(name, own), "input_format"))
        return ports

    def _as_taken(self, port: NodeArg, which: str) -> NodeArg:
        """Of f32 in the network, as the caller has it."""
        dtype, _, layout = str(self._options.get(which, "f32")).partition(",")
        image = port.type == TYPE_TEXT["f32"] and len(port.shape) == 4
        if which == "input_format" and image and port.shape[1] == 3 and self._options.get("photos"):
            dtype, layout = "u8", "nhwc"
        if port.type != TYPE_TEXT["f32"]:
            return port
        turned = [port.shape[i] for i in (0, 2, 3, 1)] if image and layout == "nhwc" else port.shape
        return NodeArg(port.name, TYPE_TEXT.get(dtype, port.type), turned)

    def _by_trial(self) -> dict[str, NodeArg]:
        """What two kinds of inputs have in common."""
        batch = next((port.shape[0] for port in self.inputs if port.shape and not isinstance(port.shape[0], int)), None)
        named = {"N": batch, "?": None}
        return {name: self._as_taken(NodeArg(name, TYPE_TEXT[dtype], [named.get(str(extent), extent) for extent in shape]), "output_format")
                for name, shape, dtype in outputs_of(self._graph, self._options)}
