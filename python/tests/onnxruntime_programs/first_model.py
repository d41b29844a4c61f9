"""After ONNX Runtime's own first example, "Load and predict with ONNX Runtime and a very simple model"."""

import sys

import numpy as np
import onnxruntime as ort

session = ort.InferenceSession(sys.argv[1], providers=ort.get_available_providers())
given, returned = session.get_inputs()[0], session.get_outputs()[0]
print(f"input {given.name}: {given.shape} {given.type}")
print(f"output {returned.name}: {returned.shape} {returned.type}")

x = np.random.default_rng(0).random((3, 4), np.float32)
result = session.run([returned.name], {given.name: x})
try:
    session.run([returned.name], {given.name: x.astype(np.float64)})
except Exception as error:
    print(f"refused: {'float64' in str(error) or 'double' in str(error)}")
np.save(sys.argv[2], result[0])
