#!/usr/bin/env python3
"""Asks a model of `lamina serve` by the Open Inference Protocol: first in JSON, then with binary tensors."""

import json
import struct
import urllib.request

SERVER, MODEL = "http://127.0.0.1:8080", "digits"

model = json.load(urllib.request.urlopen(f"{SERVER}/v2/models/{MODEL}"))
name = model["inputs"][0]["name"]
shape = [1, *model["inputs"][0]["shape"][1:]]  # the batch is -1: any number up to --max-batch
count = 1
for extent in shape:
    count *= extent
values = [0.5] * count

request = {"inputs": [{"name": name, "shape": shape, "datatype": "FP32", "data": values}]}
answer = json.load(urllib.request.urlopen(f"{SERVER}/v2/models/{MODEL}/infer", json.dumps(request).encode()))
print("JSON:  ", answer["outputs"][0]["data"])

binary = struct.pack(f"<{count}f", *values)
head = json.dumps({"inputs": [{"name": name, "shape": shape, "datatype": "FP32",
                               "parameters": {"binary_data_size": len(binary)}}],
                   "parameters": {"binary_data_output": True}}).encode()
reply = urllib.request.urlopen(urllib.request.Request(
    f"{SERVER}/v2/models/{MODEL}/infer", head + binary, {"Inference-Header-Content-Length": str(len(head))}))
body, length = reply.read(), int(reply.headers["Inference-Header-Content-Length"])
scores = body[length:]
print("binary:", list(struct.unpack(f"<{len(scores) // 4}f", scores)))
