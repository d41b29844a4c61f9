"""ONNX Runtime's exceptions and what else programs take from its module in C++."""

from .. import get_all_providers, get_available_providers, get_device, get_version_string
from .._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from .onnxruntime_pybind11_state import *  # noqa: F403
from .onnxruntime_pybind11_state import __all__ as _exceptions

__all__ = [*_exceptions, "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "RunOptions", "SessionOptions",
           "get_all_providers", "get_available_providers", "get_device", "get_version_string"]
