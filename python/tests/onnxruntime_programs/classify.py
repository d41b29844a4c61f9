"""After the notebook of ONNX's model zoo that classifies with ImageNet's networks: preprocess, run, softmax, the best."""

import sys

import numpy as np
import onnxruntime as ort


def preprocess(pixels):
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    picture = pixels.transpose(2, 0, 1).astype(np.float32) / 255
    picture = (picture - mean[:, None, None]) / deviation[:, None, None]
    return picture[None].astype(np.float32)


def softmax(scores):
    raised = np.exp(scores - np.max(scores))
    return raised / raised.sum()


options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
pixels = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
outputs = session.run(None, {"data": preprocess(pixels)})
scores = softmax(np.squeeze(outputs[0]))
for place in np.argsort(scores)[::-1][:3]:
    print(f"class={place} probability={scores[place]:.4f}")
np.save(sys.argv[2], scores)
