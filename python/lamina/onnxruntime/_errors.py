"""ONNX Runtime's exceptions, each a lamina.Error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .._core import Error, Failed, OutOfMemory, Unsupported
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


class NotImplemented(Unsupported):
    """What this build, this device or Lamina has not."""


class RuntimeException(Error, RuntimeError):
    """A device that failed, memory that ran out, or an entry of options that nobody added."""


ITS_KIND: dict[type[Error], type[Error]] = {Unsupported: NotImplemented, Failed: RuntimeException, OutOfMemory: RuntimeException}


@contextmanager
def raised_as(kind: type[Error]) -> Iterator[None]:
    """What goes wrong inside is raised as that exception, unless it has a kind of its own."""
    try:
        yield
    except Error as error:
        if type(error) is not Error and type(error) not in ITS_KIND:
            raise
        raise ITS_KIND.get(type(error), kind)(str(error)) from None
