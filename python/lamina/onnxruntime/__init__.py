"""What a program written for ONNX Runtime finds here: `import lamina.onnxruntime as ort`.

    session = ort.InferenceSession("model.onnx", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    scores, = session.run(None, {"input": x})

A plan is compiled for the shapes of its inputs when they come for the first time, and kept for those that come next.
docs/coming_from.md has both spellings side by side. Packages that import onnxruntime themselves run so after
`import lamina.onnxruntime.everywhere`.
"""

from __future__ import annotations

from .._core import cuda_device_count
from ._absent import INSTEAD as _INSTEAD
from ._absent import LISTED as _LISTED
from ._arguments import DEVICES as _DEVICES
from ._arguments import get_available_providers
from ._file import ModelMetadata, NodeArg
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._session import InferenceSession
from ._session import changes_nothing as _changes_nothing
from ._values import IOBinding, OrtValue

__all__ = ["ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata",
           "NodeArg", "OrtValue", "RunOptions", "SessionIOBinding", "SessionOptions", "create_and_register_allocator",
           "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info",
           "get_device", "get_version_string", "preload_dlls", "print_debug_info", "set_default_logger_callback",
           "set_default_logger_severity", "set_default_logger_verbosity", "set_global_thread_pool_sizes", "set_seed"]

__version__ = "1.32.0"
"""ONNX Runtime's whose interface this is, which programs look at; lamina.__version__ is Lamina's."""

SessionIOBinding = IOBinding


def get_all_providers() -> list[str]:
    """The devices that Lamina knows, by the names that ONNX Runtime has for them."""
    return list(_DEVICES)


def get_device() -> str:
    return "GPU" if cuda_device_count() > 0 else "CPU"


def get_version_string() -> str:
    return __version__


def get_build_info() -> str:
    return "Lamina, in place of ONNX Runtime"


_ABSENT = frozenset("""
    AdapterFormat LoraAdapter ModelCompiler ModelPackage ModelPackageComponentContext ModelPackageContext ModelPackageOptions
    ModelPackageWriteMode OrtAllocatorType OrtArenaCfg OrtCompileApiFlags OrtDevice OrtDeviceMemoryType OrtDeviceVendorId
    OrtEpAssignedNode OrtEpAssignedSubgraph OrtEpContextData OrtEpContextDataBuffer OrtEpDevice OrtExecutionProviderDevicePolicy
    OrtExternalInitializerInfo OrtHardwareDevice OrtHardwareDeviceType OrtMemType OrtMemoryInfo OrtMemoryInfoDeviceType
    OrtSparseFormat OrtSyncStream SparseTensor backend copy_tensors create_and_register_allocator_v2 datasets get_ep_devices
    has_collective_ops quantization register_execution_provider_library tools training transformers
    unregister_execution_provider_library""".split())


def __getattr__(name: str) -> object:
    if name in _ABSENT:
        raise AttributeError(f"ONNX Runtime has {name}, Lamina does not; {_LISTED}{_INSTEAD.get(name, '')}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


create_and_register_allocator = print_debug_info = set_default_logger_callback = set_global_thread_pool_sizes = _changes_nothing
set_default_logger_severity = set_default_logger_verbosity = _changes_nothing
enable_telemetry_events = disable_telemetry_events = preload_dlls = set_seed = _changes_nothing

from . import capi as capi  # noqa: E402  its modules take their names from above
from .capi import _pybind_state as _pybind_state  # noqa: E402
