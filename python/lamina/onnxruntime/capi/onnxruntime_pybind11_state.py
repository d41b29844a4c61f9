"""ONNX Runtime's exceptions, each a lamina.Error."""

from .._errors import (EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoaded, NoModel, NoSuchFile,
                       NotImplemented, RuntimeException)

__all__ = ["EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoaded", "NoModel",
           "NoSuchFile", "NotImplemented", "RuntimeException"]
