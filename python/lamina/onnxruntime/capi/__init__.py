"""Where programs written for ONNX Runtime find its exceptions: `lamina.onnxruntime.capi.onnxruntime_pybind11_state`."""
