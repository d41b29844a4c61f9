"""Where ONNX Runtime has its classes."""

from .. import InferenceSession
from .._values import IOBinding, OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtValue"]
