"""Lamina: a small inference framework for convolutional networks.

    model = lamina.load("model.safetensors")          # or .onnx; lamina.arch("alexnet", "weights.pth")
    model.classify("cat.jpg", top=5)                  # [("tabby", 0.61), ...]
    plan = model.compile(device="cuda", batch=32, precision="fp16")
    y = plan(x)                                       # x [32, 3, 224, 224], NumPy or any CUDA tensor
    y = model(x)                                      # the same by a plan that is compiled at the first call

Whatever fails raises lamina.Error, a ValueError, which says the place, what was expected and what was found; a file that is
not there is a FileNotFoundError too.
"""

import sys as _sys

from . import _core, _signatures

if not getattr(_sys, "_is_gil_enabled", lambda: True)():
    raise ImportError("lamina: expected an interpreter with the GIL, got a free-threaded one without it; start Python "
                      "with PYTHON_GIL=1, or -X gil=1")
_signatures.describe(_core)

from ._core import (DeviceDescription, Error, Failed, FileAccess, Graph, NoSuchFile, NotFiniteWarning, OutOfMemory, Plan, PlanMemory,
                    PoolFull, PoolWorker, Preprocess, Stop, Stopped, Tensor, Unsupported, Value, arch_names, best_device, caffe_imagenet, cuda_device_count, cuda_unavailable_reason, describe,
                    jpeg_decoder, letterbox, preprocess, read_image, resize_and_crop, torchvision_imagenet, version)
from ._detect import Detected, Detection, Detections, Detector
from ._model import Model, arch, load
from ._network import imagenet_labels
from ._options import CompileOptions
from ._photos import Classified
from ._pool import Pool
from ._quantize import Quantized, QuantizedLayer, quantize

__version__ = version()
Stop.__doc__ = """What ends runs that were given it, from another thread. It stays requested: take a new one for what comes after.

    stop = lamina.Stop()
    threading.Timer(0.2, stop.request).start()
    y = model(x, stop=stop)          # or plan(x, stop=stop): lamina.Stopped once it is requested, before the next step
"""
NoSuchFile.__str__ = BaseException.__str__  # type: ignore[method-assign]  # its message, and not what an OSError makes of errno
for _kind in (Error, Failed, FileAccess, NoSuchFile, OutOfMemory, PoolFull, Stopped, Unsupported):
    _kind.__module__ = __name__

__all__ = [
    "Classified", "CompileOptions", "Detected", "Detection", "Detections", "Detector", "DeviceDescription", "Error", "Failed", "FileAccess", "Graph", "Model", "NoSuchFile", "NotFiniteWarning",
    "OutOfMemory", "Plan", "PlanMemory", "Pool", "PoolFull", "PoolWorker", "Preprocess", "Quantized", "QuantizedLayer", "Stop", "Stopped", "Tensor", "Unsupported", "Value", "arch", "arch_names", "best_device",
    "caffe_imagenet", "cuda_device_count", "cuda_unavailable_reason", "describe", "imagenet_labels", "jpeg_decoder",
    "letterbox", "load", "preprocess", "quantize", "read_image", "resize_and_crop", "torchvision_imagenet", "version"
]
