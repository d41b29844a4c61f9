"""Programs and packages that import onnxruntime run with Lamina, unchanged:

    import lamina.onnxruntime.everywhere      # the first import of the program
    import rembg
"""

import sys

from .. import onnxruntime as _here
from .._core import Error
from .capi import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state

_MODULES = {"onnxruntime": _here, "onnxruntime.capi": _here.capi, "onnxruntime.capi._pybind_state": _pybind_state,
            "onnxruntime.capi.onnxruntime_pybind11_state": onnxruntime_pybind11_state,
            "onnxruntime.capi.onnxruntime_inference_collection": onnxruntime_inference_collection}

if sys.modules.get("onnxruntime") not in (None, _here):
    raise Error("lamina.onnxruntime.everywhere: onnxruntime was imported before: import this first")
sys.modules.update(_MODULES)
