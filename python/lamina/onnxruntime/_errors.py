"""ONNX Runtime's exceptions, each a lamina.Error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .._core import Error
from .._core import NoSuchFile as NoSuchFile


class Fail(Error):
    """What has no exception of its own."""


class InvalidArgument(Error):
    """Inputs that do not fit the model."""


class BindingError(InvalidArgument, RuntimeError):
    """Bindings and values that lack something, name what is not there, or are of another size: RuntimeErrors of ONNX Runtime's."""


class MissingInputs(InvalidArgument, ValueError):
    """As which ONNX Runtime reports them."""


class InvalidProtobuf(Error):
    """A file that is no model."""


class EngineError(Error):
    """Never raised here."""


class EPFail(Error):
    """Never raised here."""


class InvalidGraph(Error):
    """A model with an operator that is not known here."""


class ModelLoaded(Error):
    """Never raised here."""


class NoModel(Error):
    """Never raised here."""


class NotImplemented(Error):
    """Never raised here."""


class RuntimeException(Error):
    """Never raised here."""


@contextmanager
def raised_as(kind: type[Error]) -> Iterator[None]:
    """What goes wrong inside is raised as that exception."""
    try:
        yield
    except Error as error:
        if type(error) is not Error:
            raise
        raise kind(str(error)) from None
