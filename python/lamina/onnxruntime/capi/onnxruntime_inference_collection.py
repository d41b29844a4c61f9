"""Where ONNX Runtime has its classes."""

from .. import InferenceSession
from .._values import IOBinding, OrtDevice, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue"]
