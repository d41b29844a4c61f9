#!/usr/bin/env python3
"""The models that `lamina serve` takes: detectors, and what leaves extents open. hosted_test.py LAMINA SOURCE_DIR"""

import array
import contextlib
import json
import math
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
        models = ("tests/golden/detect/raw.onnx", "tests/golden/detect/open.onnx", "tests/golden/detect/apart.onnx", "weights/digits.safetensors",
                  "tests/golden/silu.onnx")  # python/tests/onnx_writer.py wrote it: Conv, Sigmoid, Mul, GlobalAveragePool, Flatten
        # What is said of all models is not said of detectors, which say it by what they are; "yolo" is what these are.
        server = Server(LAMINA, SOURCE, *(word for model in models for word in ("--model", model)), "--preprocess", "caffe", "--preprocess", "raw=yolo")
        if server.ask("/detect")[0] == 404:  # built with LAMINA_DETECT=OFF
            self.assertIn("this build has no detect: configure with -DLAMINA_DETECT=ON", server.json("/detect")[1]["error"])
            return self.assertEqual(server.stop(), 0)
        status, answer = server.json("/detect?model=raw&confidence=0.5", DIGIT)
        self.assertEqual((status, answer["model"]), (200, "raw"))
        self.assertGreater(len(answer["detections"]), 1)
        for thing in answer["detections"]:
            self.assertGreater(thing["score"], 0.5)
            self.assertIn(thing["name"], ("cat", "it's", "dog"))
            self.assertTrue(0 <= thing["box"][0] <= thing["box"][2] <= answer["width"])
        self.assertEqual(server.json("/detect?model=open&confidence=0.5", DIGIT)[1]["detections"], answer["detections"])
        self.assertIn("person", {thing["name"] for thing in server.json("/detect?model=apart", DIGIT)[1]["detections"]})
        self.assertEqual([(model["task"], model["answers"]) for model in server.json("/models")[1]],
                         [("detect", "detect")] * 3 + [("", "classify")] * 2)
        self.assertEqual(server.json("/models")[1][-1]["layer"], "silu")  # and not the sigmoid that it is made with
        for words, query in (("from 0 to 1", "model=raw&iou=2"), ("classifier", "model=digits")):
            status, answer = server.json(f"/detect?{query}", DIGIT)
            self.assertTrue(status == 400 and words in answer["error"], answer)
        self.assertEqual(server.stop(), 0)


@contextlib.contextmanager
def relu_model(*sides, copies=1, **metadata):
    """A file of a model that is a ReLU of photographs, or several beside each other."""
    graph = {"version": 1, "inputs": [{"name": "x", "shape": ["N", 3, *sides]}], "outputs": ["r"], "nodes": [{"name": "r", "op": "relu", "inputs": ["x"]}]}
    if copies > 1:
        graph["nodes"].append({"name": "many", "op": "concat", "attrs": {"dim": 1}, "inputs": ["r"] * copies})
        graph["outputs"] = ["many"]
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
    def infer(self, server, name, *shape):
        numbers = [((i * 7) % 11) - 5 for i in range(math.prod(shape))]
        request = {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape, "data": numbers}]}
        status, answer = server.json(f"/v2/models/{name}/infer", json.dumps(request))
        self.assertEqual(status, 200, answer)
        self.assertEqual((answer["outputs"][0]["shape"], answer["outputs"][0]["data"]), (list(shape), [max(0, number) for number in numbers]))

    def test_every_size_is_answered(self):
        with relu_model("?", "?") as file:
            name = Path(file.name).stem
            server = Server(LAMINA, SOURCE, "--model", file.name, "--memory", "64M")
            metadata = server.json(f"/v2/models/{name}")[1]
            self.assertEqual([metadata[key][0]["shape"] for key in ("inputs", "outputs")], [[-1, 3, -1, -1]] * 2)
            self.assertEqual(server.json("/models")[1][0]["layers"][0]["shape"], [3, 224, 224])
            for side in [*range(1, 30), 5, 40]:  # more of them than are kept
                self.infer(server, name, 1, 3, side, 2 * side)
            self.infer(server, name, 3, 3, 8, 9)
            self.assertEqual(server.stop(), 0)

    def test_plans_have_a_bound(self):
        with relu_model("?", "?", copies=16) as file:
            server = Server(LAMINA, SOURCE, "--model", file.name, "--memory", "32M")
            side, head = 300, {"name": "x", "datatype": "FP32", "shape": [1, 3, 300, 300], "parameters": {"binary_data_size": 12 * 300 * 300}}
            head = json.dumps({"inputs": [head]}).encode()
            status, answer = server.json(f"/v2/models/{Path(file.name).stem}/infer", head + bytes(12 * side * side), {"Inference-Header-Content-Length": str(len(head))})
            self.assertTrue(status == 413 and "that --memory leaves for it" in answer["error"], answer)
            self.assertEqual(server.stop(), 0)

    def test_a_size_that_is_said(self):
        with relu_model("?", "?") as file, relu_model("?", "?") as other:
            names = [Path(f.name).stem for f in (file, other)]
            server = Server(LAMINA, SOURCE, "--model", file.name, "--model", other.name, "--size", "8", "--size", f"{names[1]}=16")
            self.assertEqual([model["layers"][0]["shape"] for model in server.json("/models")[1]], [[3, 8, 8], [3, 16, 16]])
            self.assertIn("the page cannot offer it", server.process.stderr.readline())
            self.assertEqual(server.stop(), 0)


class SaidOfModels(unittest.TestCase):
    def test_names_of_classes_and_preprocessing(self):
        with tempfile.TemporaryDirectory() as folder, relu_model(28, 28) as colours:
            (Path(folder) / "names.txt").write_text("\n".join(f"digit {i}" for i in range(10)))
            (Path(folder) / "colours.txt").write_text("red\ngreen\nblue")
            name, serve = Path(colours.name).stem, ("--model", "weights/digits.safetensors", "--model", colours.name)
            server = Server(LAMINA, SOURCE, *serve, "--labels", f"digits={folder}/names.txt", "--labels", f"{name}={folder}/colours.txt",
                            "--preprocess", "digits=caffe")
            self.assertRegex(server.json("/classify?model=digits&top=1", DIGIT)[1]["classes"][0]["name"], "^digit [0-9]$")
            self.assertEqual([model["answers"] for model in server.json("/models")[1]], ["classify", "segment"])
            self.assertEqual(json.loads(server.ask("/input?model=digits", DIGIT)[2]["Lamina-Description"])["divisor"], 1)
            self.assertEqual(server.stop(), 0)
            for words, code, what in ((("--size", "nobody=8"), 2, "there is no model \"nobody\" among those served: digits, "),
                                      (("--size", "digits=many"), 2, "--size"),
                                      (("--labels", f"digits={folder}/colours.txt"), 2, "expected 10 labels, one for each class, got 3"),
                                      (("--labels", f"{name}={folder}/names.txt"), 1, "10 --labels, and no output has scores of as many")):
                refused = subprocess.run([LAMINA, "serve", "--port", "0", *serve, *words], cwd=SOURCE, capture_output=True, text=True, timeout=60)
                self.assertEqual(refused.returncode, code, refused.stderr)
                self.assertIn(what, refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
