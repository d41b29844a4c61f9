"""Programs and packages that import onnxruntime run with Lamina, unchanged:

    import lamina.onnxruntime.everywhere      # the first import of the program
    import rembg
"""

import sys
from importlib.abc import MetaPathFinder
from typing import Any

from .. import onnxruntime as _here
from .._core import Error
from .capi import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state

_MODULES = {"onnxruntime": _here, "onnxruntime.capi": _here.capi, "onnxruntime.capi._pybind_state": _pybind_state,
            "onnxruntime.capi.onnxruntime_pybind11_state": onnxruntime_pybind11_state,
            "onnxruntime.capi.onnxruntime_inference_collection": onnxruntime_inference_collection}

if sys.modules.get("onnxruntime") not in (None, _here):
    raise Error("lamina.onnxruntime.everywhere: onnxruntime was imported before: import this first")
sys.modules.update(_MODULES)


class _Absent(MetaPathFinder):
    """Says whose doing it is that a part of onnxruntime is not found, which may well be installed."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        part = name.rpartition("onnxruntime.")[2]
        if name not in (f"onnxruntime.{part}", f"lamina.onnxruntime.{part}") or sys._getframe(2).f_code.co_name == "find_spec":
            return  # importlib.util's only asks
        said = (f"{part!r} of onnxruntime: lamina.onnxruntime.everywhere stands in for onnxruntime here, and has no such part "
                "(docs/coming_from.md lists what is missing); use onnxruntime's own in a process without that import")
        if name.startswith("lamina."):  # from onnxruntime import part
            raise ImportError(f"cannot import name {said}", name=name)
        raise ModuleNotFoundError(f"No module {said}", name=name)


sys.meta_path.append(_Absent())
