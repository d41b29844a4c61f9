"""After Ultralytics' example of YOLOv8 with ONNX Runtime: the model's own size, transposed boxes, the best of each place."""

import sys

import numpy as np
import onnxruntime as ort

session = ort.InferenceSession(sys.argv[1], providers=["CUDAExecutionProvider", "CPUExecutionProvider"]
                               if "CUDAExecutionProvider" in ort.get_available_providers() else ["CPUExecutionProvider"])
model_inputs = session.get_inputs()
height, width = model_inputs[0].shape[2:4]
image = np.random.default_rng(3).random((1, 3, height, width), np.float32)
outputs = session.run(None, {model_inputs[0].name: image})

rows = np.transpose(np.squeeze(outputs[0]))
scores = rows[:, 4:].max(axis=1)
best = np.argsort(-scores, kind="stable")[:5]
for x, y, w, h in rows[best, :4]:
    print(f"{int(x - w / 2)} {int(y - h / 2)} {int(w)} {int(h)}")
np.save(sys.argv[2], rows)
