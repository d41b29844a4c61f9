"""Signatures for whoever asks: inspect, help, the completion of keywords."""

from __future__ import annotations

import errno
import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

from . import _core
from ._core import nearest_text
from ._options import DEFAULTS, EXPLAINED, CompileOptions

Function = TypeVar("Function", bound=Callable[..., Any])


class Shortened(inspect.Signature):
    """As text, which help() shows, with **options where it has the keywords of `compile`."""

    def __str__(self) -> str:
        kept = [parameter for parameter in self.parameters.values() if parameter.kind is not parameter.KEYWORD_ONLY
                or parameter.name not in EXPLAINED or parameter.default != DEFAULTS.get(parameter.name)]
        options = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)
        return str(inspect.Signature([*kept, options], return_annotation=self.return_annotation))

    def format(self, **_: Any) -> str:
        """What help() calls since Python 3.13."""
        return str(self)


def spelled_out(signature: inspect.Signature, without: Collection[str] = ()) -> inspect.Signature:
    """With the keywords of `compile` in place of **options, but those that it has already and those that it cannot take."""
    given = [parameter for parameter in signature.parameters.values() if parameter.name != "options"]
    if len(given) == len(signature.parameters):
        return signature
    for name, kind in CompileOptions.__annotations__.items():
        if name not in signature.parameters and name not in without:
            given.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name),
                                           annotation=getattr(kind, "__forward_arg__", kind)))
    return signature.replace(parameters=given)


def explained(words: str | None, function: str, signature: inspect.Signature) -> str:
    """With what the keywords mean that **options stood for; but for `compile` itself, with where that is said."""
    keywords = "".join(f"\n    {name}: {text}" for name, text in EXPLAINED.items() if name in signature.parameters)
    if keywords and function != "compile":
        keywords = " help(lamina.CompileOptions)"
    return inspect.cleandoc(words or "") + (f"\n\nKeywords of compile:{keywords}\n" if keywords else "")


def with_options(function: Function, without: Collection[str] = ()) -> Function:
    """Says which keywords a function's **options are, and what they mean, and refuses others in the function's name."""
    signature = spelled_out(inspect.signature(function), without)
    if any(name in EXPLAINED for name in signature.parameters) and function.__name__ != "compile":
        signature = Shortened(list(signature.parameters.values()), return_annotation=signature.return_annotation)
    special = function.__name__.startswith("__")
    by_place = [name for name, parameter in signature.parameters.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if len(arguments) > len(by_place):
            name = type(arguments[0]).__name__ if special else function.__name__
            several = "; several inputs are a tuple, model((x, y))" if by_place == ["self", "x"] else ""
            expected = f"{', '.join(by_place[1:])} and the rest by name" if by_place[1:] else "keywords alone"
            raise TypeError(f"{name}: expected {expected}, got {len(arguments) - 1} by place{several}")
        for name in keywords:
            if name not in signature.parameters:
                known = [parameter for parameter in signature.parameters if parameter != "self"]
                raise TypeError(f'{type(arguments[0]).__name__ if special else function.__name__}: there is no option "{name}"'
                                + nearest_text(name, known))
        return function(*arguments, **keywords)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = explained(function.__doc__, function.__name__, signature)
    return call  # type: ignore[return-value]


def options_but(*names: str) -> Callable[[Function], Function]:
    """with_options, where these keywords of `compile` cannot be taken."""
    return lambda function: with_options(function, names)


def written_in(native: Any) -> inspect.Signature:
    """What nanobind says of a function as the text of a stub, in which \\0 is the first of the defaults."""
    text, _, defaults = native.__nb_signature__[0]
    names = {f"_{place}": value for place, value in enumerate(defaults or ())}
    text = re.sub(r"\\(?=\d)", "_", text)
    exec(f"from __future__ import annotations\n{text}: ...", names)
    return spelled_out(inspect.signature(names[native.__name__]))


KINDS = {"int": SupportsIndex, "float": SupportsFloat, "bool": bool, "str": str, "bytes": bytes, "None": type(None), "dict": dict,
         "list": list, "PathLike": os.PathLike, "Sequence": Sequence}


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of one of the types of an annotation, of which those that are not known here fit all."""
    for text in str(annotation).split(" | "):
        name = text.partition("[")[0].rpartition(".")[2]
        kind = KINDS.get(name) or getattr(_core, name, None)
        if not isinstance(kind, type) or isinstance(value, kind):
            return True
    return False


def in_words(signature: inspect.Signature, name: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> str:
    """What is wrong with arguments that a function of nanobind's does not take."""
    try:
        given = signature.bind(*arguments, **keywords).arguments
    except TypeError as problem:
        unknown = next((keyword for keyword in keywords if keyword not in signature.parameters), None)
        return f"{name}: {problem}" + (nearest_text(unknown, list(signature.parameters)) if unknown else "")
    for parameter, value in given.items():
        if not fits(value, expected := signature.parameters[parameter].annotation):
            return f"{parameter}: expected {expected}, got {type(value).__name__}"
    given.pop("self", None)
    return (f"{name}: expected {', '.join(f'{each}: {signature.parameters[each].annotation}' for each in given)}; got "
            + ", ".join(type(value).__name__ for value in given.values()))


def described(native: Any) -> Any:
    """A function of nanobind's, which can be asked nothing, as one of Python's; its errors say what these of Python's do."""
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return native(*arguments, **keywords)
        except TypeError as error:
            if not re.search("incompatible function arguments|another type of argument", str(error)):
                raise
            raise TypeError(in_words(signature, spoken, arguments, keywords)) from None
        except FileNotFoundError as error:
            error.errno = errno.ENOENT
            error.filename = next((each for each in (*arguments, *keywords.values()) if isinstance(each, (str, os.PathLike))), None)
            raise

    for name in ("__module__", "__name__", "__qualname__"):
        setattr(call, name, getattr(native, name))
    signature = written_in(native)
    spoken = native.__qualname__.split(".")[-2 if native.__name__.startswith("__") else -1]
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = explained(native.__nb_signature__[0][1], native.__name__, signature)
    return call


def set_in_words(native: Any, name: str) -> Any:
    """A setter of nanobind's, whose argument has the name of what is set."""
    expected = re.sub(r".*arg: (.*), /.*", r"\1", native.__nb_signature__[0][0])

    def call(self: Any, value: Any) -> None:
        try:
            native(self, value)
        except TypeError:
            raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}") from None

    return call


class Signatures:
    """Of a class, which Python 3.11.2 does not find by itself, and of its objects where they are called."""

    def __init__(self, of_class: inspect.Signature | None, of_calls: inspect.Signature | None) -> None:
        self.of_class, self.of_calls = of_class, of_calls

    def __get__(self, owner: object | None, kind: type) -> inspect.Signature:
        signature = self.of_class if owner is None else self.of_calls
        if signature is None:
            raise AttributeError("__signature__")
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def describe(place: ModuleType | type) -> None:
    """Has every function of a module and of its classes, or every method of a class, say its signature. Calls of
    objects stay as they are: of a plan they are to take a microsecond."""
    if isinstance(place, type):
        written = {name: written_in(thing) for name, thing in vars(place).items()
                   if name in ("__init__", "__call__") and hasattr(thing, "__nb_signature__")}
        place.__signature__ = Signatures(written.get("__init__"), written.get("__call__"))  # type: ignore[attr-defined]
    for name, thing in list(vars(place).items()):
        if isinstance(thing, type) and isinstance(place, ModuleType) and thing.__module__ == place.__name__:
            describe(thing)
        elif isinstance(thing, property) and hasattr(thing.fset, "__nb_signature__"):
            setattr(place, name, property(thing.fget, set_in_words(thing.fset, name), None, thing.__doc__))
        elif hasattr(thing, "__nb_signature__") and (name == "__init__" or not name.startswith("_")):
            setattr(place, name, described(thing))
