"""Warnings that are the caller's."""

import sys
from warnings import warn_explicit


def warn(text: str, category: type[Warning]) -> None:
    """At the line of the program that called into Lamina; each time, for what was said of one plan is not said of another."""
    try:
        frame = sys._getframe(1)
    except ValueError:  # on a thread of a pool's
        warn_explicit(text, category, "lamina.Pool", 1)
        return
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).split(".")[0] == "lamina":
        frame = frame.f_back
    warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, str(frame.f_globals.get("__name__")))
