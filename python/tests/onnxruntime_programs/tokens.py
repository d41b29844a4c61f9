"""After the examples that classify texts: numbers of words, of any length, with a mask, by the inputs' and outputs' names."""

import sys

import numpy as np
import onnxruntime as ort

session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
names = [each.name for each in session.get_inputs()]
outputs = []
for text in ([7, 3, 9], [1, 1, 2, 3, 5, 8, 13], [7, 3, 9]):
    tokens = np.array([text], np.int64)
    feed = dict(zip(names, (tokens, np.ones_like(tokens))))
    (logits,) = session.run(["logits"], feed)
    print(len(text), "words: class", int(logits.argmax()))
    outputs.append(logits[0])
np.save(sys.argv[2], np.stack(outputs))
