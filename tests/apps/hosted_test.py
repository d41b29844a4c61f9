#!/usr/bin/env python3
"""The models that `lamina serve` takes: detectors, and what leaves extents open. hosted_test.py LAMINA SOURCE_DIR"""

import array
import contextlib
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from serving import Server

LAMINA, SOURCE = sys.argv[1], Path(sys.argv[2])
DIGIT = (SOURCE / "weights/digits/7.png").read_bytes()


class Detectors(unittest.TestCase):
    def test_things_are_found(self):
        models = ("tests/golden/detect/raw.onnx", "tests/golden/detect/open.onnx", "weights/digits.safetensors")
        server = Server(LAMINA, SOURCE, *(word for model in models for word in ("--model", model)))
        if server.ask("/detect")[0] == 404:  # built with LAMINA_DETECT=OFF
            return self.assertEqual(server.stop(), 0)
        status, answer = server.json("/detect?model=raw&confidence=0.5", DIGIT)
        self.assertEqual((status, answer["model"]), (200, "raw"))
        self.assertGreater(len(answer["detections"]), 1)
        for thing in answer["detections"]:
            self.assertGreater(thing["score"], 0.5)
            self.assertIn(thing["name"], ("cat", "it's", "dog"))
            self.assertTrue(0 <= thing["box"][0] <= thing["box"][2] <= answer["width"])
        self.assertEqual(server.json("/detect?model=open&confidence=0.5", DIGIT)[1]["detections"], answer["detections"])
        self.assertEqual([(model["task"], model["answers"]) for model in server.json("/models")[1]],
                         [("detect", "detect"), ("detect", "detect"), ("", "classify")])
        for words, query in (("from 0 to 1", "model=raw&iou=2"), ("classifier", "model=digits")):
            status, answer = server.json(f"/detect?{query}", DIGIT)
            self.assertTrue(status == 400 and words in answer["error"], answer)
        self.assertEqual(server.stop(), 0)


@contextlib.contextmanager
def relu_model(*sides, **metadata):
    """A file of a model that is a ReLU of photographs."""
    graph = {"version": 1, "inputs": [{"name": "x", "shape": ["N", 3, *sides]}], "outputs": ["r"], "nodes": [{"name": "r", "op": "relu", "inputs": ["x"]}]}
    text = json.dumps({"__metadata__": {"lamina.graph": json.dumps(graph), **{f"lamina.{key}": value for key, value in metadata.items()}}}).encode()
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.flush()
        yield file


class Segmenters(unittest.TestCase):
    def test_each_pixel_has_the_class_of_its_colour(self):
        with relu_model(28, 28, labels="red\ngreen\nblue") as file:
            server = Server(LAMINA, SOURCE, "--model", file.name, "--model", "weights/digits.safetensors")
            self.assertEqual([model["answers"] for model in server.json("/models")[1]], ["segment", "classify"])
            photo = b"P6 28 28 255\n" + bytes([200, 10, 10]) * 14 * 28 + bytes([10, 10, 200]) * 14 * 28
            status, answer = server.json("/segment", photo)
            self.assertEqual((status, answer["shape"], [(c["name"], c["share"]) for c in answer["classes"]]), (200, [28, 28], [("red", 0.5), ("blue", 0.5)]))
            self.assertRegex(answer["classes"][0]["color"], "^#[0-9a-f]{6}$")
            _, content, headers = server.ask("/segment", photo, {"Accept": "application/octet-stream"})
            self.assertEqual(list(array.array("H", content)), [0] * 14 * 28 + [2] * 14 * 28)
            self.assertEqual(json.loads(headers["Lamina-Description"])["classes"], answer["classes"])
            status, answer = server.json("/segment?model=digits", DIGIT)
            self.assertTrue(status == 400 and "expected scores [N, classes, h, w]" in answer["error"], answer)
            wide = b"P6 2800 2 255\n" + bytes([200, 10, 10]) * 5600
            self.assertEqual(server.json("/segment", wide)[1]["shape"], [1, 1400])
            self.assertEqual(server.stop(), 0)


class OpenExtents(unittest.TestCase):
    def test_a_model_is_served_at_the_size_that_is_said(self):
        with relu_model("?", "?") as file:
            without = subprocess.run([LAMINA, "serve", "--model", file.name, "--port", "0"], capture_output=True, text=True, timeout=60)
            self.assertEqual(without.returncode, 1)
            self.assertIn("[N, 3, ?, ?]: a model is served at one size, which --size gives", without.stderr)
            server = Server(LAMINA, SOURCE, "--model", file.name, "--size", "8")
            (model,) = server.json("/models")[1]
            self.assertEqual(server.json(f"/v2/models/{model['name']}")[1]["outputs"][0]["shape"], [-1, 3, 8, 8])
            self.assertEqual(model["layers"][0]["shape"], [3, 8, 8])
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
