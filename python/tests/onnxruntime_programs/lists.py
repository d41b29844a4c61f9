"""As magika runs its model: lists of whole numbers in, lists of scores out."""
import sys

import numpy as np
import onnxruntime as ort

ort.disable_telemetry_events()
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
files = [b"#!/bin/sh\nexit 0", b"<html><body></b>"]
answers = []
for count in (1, 2):
    scores = session.run(["target_label"], {"bytes": [list(file) for file in files[:count]]})[0].tolist()
    print(len(scores), ["%.3f" % max(row) for row in scores])
    answers += scores
np.save(sys.argv[2], np.array(answers, np.float32))
