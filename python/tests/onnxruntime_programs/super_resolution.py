"""After PyTorch's tutorial that exports a super-resolution network and runs it with ONNX Runtime, for two batches."""

import sys

import numpy as np
import onnxruntime as ort

session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
random = np.random.default_rng(2)
inputs = {session.get_inputs()[0].name: random.random((1, 1, 24, 24), np.float32)}
one = session.run(None, inputs)[0]
assert one.shape == (1, 1, 72, 72), one.shape

inputs = {session.get_inputs()[0].name: random.random((5, 1, 24, 24), np.float32)}
five = session.run(None, inputs)[0]
picture = np.uint8((five[0, 0] * 255.0).clip(0, 255))
print(picture.shape, picture.dtype)
np.save(sys.argv[2], np.concatenate([one, five]))
