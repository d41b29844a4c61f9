#!/usr/bin/env python3
"""Starts `lamina serve` on a free port and asks it everything that docs/serve.md promises: serve_test.py LAMINA SOURCE"""

import json
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from serving import Server, together

LAMINA, SOURCE = sys.argv[1], Path(sys.argv[2])
ALONE = Path(LAMINA).name == "serve_alone"  # which has no other commands
DIGIT = (SOURCE / "weights/digits/7.png").read_bytes()
SIDE = 32


def tensor(images=1, seed=1):
    draw = random.Random(seed)
    return [draw.uniform(-1, 1) for _ in range(images * 3 * SIDE * SIDE)]


def infer_request(values, images=1, **more):
    shape = [images, 3, SIDE, SIDE]
    return {"inputs": [{"name": "input", "shape": shape, "datatype": "FP32", "data": values}], **more}


class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(LAMINA, SOURCE, "--max-batch", "8", "--max-body", "4")
        cls.ask, cls.json = staticmethod(cls.server.ask), staticmethod(cls.server.json)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, "SIGTERM: expected exit code 0"

    def refused(self, status, words, *arguments, **more):
        got, answer = self.json(*arguments, **more)
        self.assertEqual(got, status, answer)
        self.assertIn(words, answer["error"])

    def test_health_and_metadata(self):
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/digits/ready", "/v2/models/digits/versions/1/ready"):
            self.assertEqual(self.ask(path)[0], 200, path)
        status, answer = self.json("/v2")
        self.assertEqual((status, answer["name"]), (200, "lamina"))
        self.assertIn("binary_tensor_data", answer["extensions"])
        status, model = self.json("/v2/models/digits")
        self.assertEqual(model["inputs"], [{"name": "input", "datatype": "FP32", "shape": [-1, 3, SIDE, SIDE]}])
        self.assertEqual(model["outputs"][0]["shape"], [-1, 10])
        self.assertEqual(self.json("/v2/models/digits/config")[1]["max_batch_size"], 8)
        self.refused(404, "nothing", "/v2/models/nothing")
        self.refused(404, "nothing", "/v2/models/nothing/infer", b"{}")
        self.refused(404, "version", "/v2/models/digits/versions/2")
        self.refused(404, "no /elsewhere", "/elsewhere")
        self.refused(404, "no /elsewhere", "/elsewhere", b"{}")
        self.refused(405, "expected GET", "/models", b"{}")
        self.refused(405, "expected POST", "/v2/models/digits/infer")
        self.assertEqual(self.ask("/v2/health/live", method="HEAD")[0], 200)

    def test_json_and_binary_agree_alone_and_in_a_batch(self):
        values = tensor(3)
        packed = struct.pack(f"<{len(values)}f", *values)
        values = list(struct.unpack(f"<{len(values)}f", packed))
        status, together = self.json("/v2/models/digits/infer", json.dumps(infer_request(values, 3, id="three")))
        self.assertEqual((status, together["id"], together["model_name"]), (200, "three", "digits"))
        output = together["outputs"][0]
        self.assertEqual((output["shape"], output["datatype"]), ([3, 10], "FP32"))
        together = struct.pack("<30f", *output["data"])
        one = len(packed) // 3
        for i in range(3):
            head = json.dumps({"inputs": [{"name": "input", "shape": [1, 3, SIDE, SIDE], "datatype": "FP32",
                                           "parameters": {"binary_data_size": one}}],
                               "outputs": [{"name": output["name"], "parameters": {"binary_data": True}}]}).encode()
            status, content, headers = self.ask("/v2/models/digits/infer", head + packed[i * one:(i + 1) * one],
                                                {"Inference-Header-Content-Length": str(len(head))})
            self.assertEqual(status, 200, content)
            length = int(headers["Inference-Header-Content-Length"])
            self.assertEqual(json.loads(content[:length])["outputs"][0]["parameters"]["binary_data_size"], 40)
            self.assertEqual(content[length:], together[i * 40:(i + 1) * 40])

    def test_many_clients_get_their_own_answers(self):
        expected = {}
        for seed in range(8):
            expected[seed] = self.json("/v2/models/digits/infer", json.dumps(infer_request(tensor(1, seed))))[1]["outputs"]
        wrong = []

        def client(number):
            for i in range(12):
                seed = (number + i) % 8
                status, answer = self.json("/v2/models/digits/infer", json.dumps(infer_request(tensor(1, seed))))
                if status != 200 or answer["outputs"] != expected[seed]:
                    wrong.append((number, i, status))

        threads = [threading.Thread(target=client, args=(n,)) for n in range(12)]
        together(threads)
        self.assertEqual(wrong, [])
        metrics = self.ask("/metrics")[1].decode()
        self.assertIn('lamina_requests_total{path="infer",status="200"}', metrics)
        self.assertIn('lamina_batch_images_bucket{model="digits",le="1"}', metrics)
        self.assertIn('lamina_queue_images{model="digits"} 0', metrics)

    def test_inference_requests_that_do_not_fit(self):
        path = "/v2/models/digits/infer"
        good = infer_request(tensor())
        wrong = {
            "not valid JSON": "{",
            "nested deeper": "[" * 50000,
            'list "inputs"': "{}",
            'no input "x"; there is "input"': json.dumps({"inputs": [{"name": "x"}]}),
            "is missing": json.dumps({"inputs": []}),
            "expected datatype FP32": json.dumps({"inputs": [dict(good["inputs"][0], datatype="INT8")]}),
            "expected a shape": json.dumps({"inputs": [dict(good["inputs"][0], shape=[9, 3, SIDE, SIDE])]}),
            "got 3": json.dumps({"inputs": [dict(good["inputs"][0], data=[1, 2, 3])]}),
            "expected numbers": json.dumps({"inputs": [dict(good["inputs"][0], data=["a"] * 3072)]}),
            'no output "y"': json.dumps(dict(good, outputs=[{"name": "y"}])),
            "given twice": json.dumps({"inputs": good["inputs"] * 2}),
        }
        for words, body in wrong.items():
            self.refused(400, words, path, body)
        self.refused(400, "Inference-Header-Content-Length", path, b"{}", {"Inference-Header-Content-Length": "99"})
        self.refused(400, "Inference-Header-Content-Length", path, b"{}", {"Inference-Header-Content-Length": "-1"})
        text = json.dumps(good).encode()
        draw = random.Random(7)
        for _ in range(150):  # whatever comes, the answer is one of the client's mistakes or an inference
            broken = bytearray(text[:400] + text[-200:])
            for _ in range(draw.randint(1, 8)):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            self.assertIn(self.ask(path, bytes(broken))[0], (200, 400))

    def test_parameters_that_nothing_reads_are_refused(self):
        """One place says it for all paths; what is known is listed, and the nearest named."""
        for path, body, words in (("/classify?model=digits&topp=1", DIGIT, 'there is no parameter "topp"; nearest: "top"; it takes model, top'),
                                  ("/detect?conf=0.5", DIGIT, "it takes model, confidence, iou"),
                                  ("/segment?top=1", DIGIT, "it takes model"), ("/features?model=digits&map=1", DIGIT, "it takes model, layer"),
                                  ("/picture?model=digits", DIGIT, "it takes none"), ("/input?layer=x", DIGIT, "it takes model"),
                                  ("/filters?kernel=1", None, "it takes model, layer, filter"), ("/models?model=digits", None, "it takes none"),
                                  ("/profile?m=digits", None, "it takes model"), ("/metrics?name=x", None, "it takes none"),
                                  ("/v2?x", None, "it takes none"), ("/v2/models/digits/infer?binary=1", "{}", "it takes none")):
            self.refused(400, words, path, body)
        for wrong in ("0", "-1", "x", "1.5", "", "99999999999"):
            self.refused(400, "top: expected a number from 1 to ", f"/classify?model=digits&top={wrong}", DIGIT)
        self.assertEqual(self.ask("/?from=elsewhere")[0], 200)  # links to the page have what their sites add

    def test_a_class_is_called_so(self):
        status, answer = self.json("/classify?model=digits&top=2", DIGIT)
        self.assertEqual((status, [(each["class"], each["name"]) for each in answer["classes"]][0]), (200, (7, "seven")), answer)
        self.assertEqual([each["index"] for each in answer["classes"]], [each["class"] for each in answer["classes"]])

    def test_what_a_browser_cannot_draw(self):
        read = lambda name: (SOURCE / name).read_bytes()
        status, picture, headers = self.ask("/picture", read("tests/golden/images/colour.ppm"))
        self.assertEqual((status, picture[:4], headers["Content-Type"]), (200, b"\x89PNG", "image/png"))
        self.refused(415, "expected a photograph: PNG", "/picture", b"hello")
        self.refused(422, "truncated", "/picture", DIGIT[:-20])
        self.refused(405, "expected POST", "/picture")
        damaged = bytearray(read("tests/golden/heic/colour.heic"))
        damaged[damaged.find(b"ispe") + 12] = 1
        status, answer = self.json("/classify?model=digits", bytes(damaged))
        self.assertIn(status, (415, 422), answer)  # without libheif, with it; never 503
        self.assertIn("digits reads one handwritten digit", self.json("/classify?model=digits", read("docs/images/astronaut.png"))[1]["doubt"])
        self.assertNotIn("doubt", self.json("/classify?model=digits", DIGIT)[1])

    def test_photographs(self):
        multipart = (b"--xyz\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--xyz\r\n"
                     b"Content-Disposition: form-data; name=\"image\"; filename=\"7.png\"\r\nContent-Type: image/png\r\n\r\n"
                     + DIGIT + b"\r\n--xyz--\r\n")
        status, raw = self.json("/classify?model=digits&top=2", DIGIT)
        self.assertEqual((status, raw["classes"][0]["name"], len(raw["classes"])), (200, "seven", 2))
        status, form = self.json("/classify?model=digits&top=2", multipart, {"Content-Type": "multipart/form-data; boundary=xyz"})
        self.assertEqual((status, form["classes"]), (200, raw["classes"]))
        status, answer = self.json("/features?model=alexnet-conv1", DIGIT)
        self.assertEqual((status, answer["shape"], answer["layer"]), (200, [96, 55, 55], "features.1"))
        self.assertEqual(len(answer["strongest"]), 10)
        binary = {"Accept": "application/octet-stream"}
        status, maps, headers = self.ask("/features?model=alexnet-conv1&layer=features.1", DIGIT, binary)
        self.assertEqual((status, len(maps)), (200, 96 * 55 * 55 * 4))
        self.assertEqual(json.loads(headers["Lamina-Description"])["shape"], [96, 55, 55])
        if not ALONE:
            subprocess.run([LAMINA, "features", "weights/digits/7.png", "--out", f"{DIRECTORY}/maps.png", "--output-tensor",
                            f"{DIRECTORY}/maps.safetensors", "--device", "cpu"], cwd=SOURCE, check=True, capture_output=True)
            self.assertEqual(Path(f"{DIRECTORY}/maps.safetensors").read_bytes()[-len(maps):], maps)
        for path, body, status, words in (
                ("/classify", b"", 400, "expected a photograph"),
                ("/classify", b"hello", 415, "this is a text"),
                ("/classify", DIGIT[:60], 422, ""),
                ("/classify?model=alexnet-conv1", DIGIT, 400, "scores"),
                ("/classify?model=no", DIGIT, 404, "no model"),
                ("/features?model=digits&layer=features1", DIGIT, 404, 'nearest: "features.1"'),
                ("/clasify", DIGIT, 404, 'there is no /clasify; nearest: "/classify"'),
                ("/input", b"hello", 415, "expected a photograph"),
                ("/filters?model=digits&layer=features.3", None, 404, "filters")):
            self.refused(status, words, path, body)
        draw = random.Random(11)
        for original, headers in ((multipart, {"Content-Type": "multipart/form-data; boundary=xyz"}), (DIGIT, {})):
            for _ in range(100):
                broken = bytearray(original)
                for _ in range(draw.randint(1, 6)):
                    broken[draw.randrange(len(broken))] = draw.randrange(256)
                status = self.ask("/classify", bytes(broken[:draw.randint(1, 2 * len(broken))]), headers)[0]
                self.assertIn(status, (200, 400, 415, 422))
        self.refused(400, "", "/classify", b"--abc\r\nnonsense", {"Content-Type": "multipart/form-data; boundary=xyz"})

    def test_limits_and_clients_that_die(self):
        self.assertEqual(self.ask("/classify", b"x" * (5 << 20))[0], 413)

        def chunks():
            for _ in range(90):
                yield b"x" * (1 << 16)
        try:
            self.assertEqual(self.ask("/classify", chunks(), {"Transfer-Encoding": "chunked"})[0], 413)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it need not be read to its end
        for _ in range(20):  # gone in the middle of the body, and before the answer
            for body in (b"1234", json.dumps(infer_request(tensor())).encode()):
                with socket.create_connection(("127.0.0.1", self.server.port)) as client:
                    length = len(body) if len(body) > 4 else 4000
                    client.sendall(b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % length + body)
        # A body that was refused is not taken for requests.
        body = b"--x\r\nno part\r\n\r\n" + b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n" * 300
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as client:
            client.sendall(b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=xyz\r\n"
                           b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            try:
                with client.makefile("rb") as stream:
                    answer = stream.read()  # until the server closes
                self.assertEqual((answer.count(b"HTTP/1.1 "), answer[:12]), (1, b"HTTP/1.1 400"))
            except ConnectionResetError:
                pass
        idle = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(1000)]
        self.assertEqual(self.ask("/v2/health/live")[0], 200)  # they would be waited for for longer than `ask` waits
        for connection in idle:
            connection.close()
        self.assertEqual(self.json("/classify?model=digits", DIGIT)[0], 200)


class Overload(unittest.TestCase):
    def test_refuses_what_it_cannot_queue_and_answers_what_it_took(self):
        server = Server(LAMINA, SOURCE, "--model", "weights/alexnet-conv1.safetensors", "--max-batch", "2", "--max-queue", "2", "--threads", "1")
        shape = [2, 3, 224, 224]
        size = 4 * 2 * 3 * 224 * 224
        head = json.dumps({"inputs": [{"name": "input", "shape": shape, "datatype": "FP32",
                                       "parameters": {"binary_data_size": size}}],
                           "parameters": {"binary_data_output": True}}).encode()
        body, headers = head + bytes(size), {"Inference-Header-Content-Length": str(len(head))}
        statuses, retry, lock = [], [], threading.Lock()

        def client():
            for _ in range(6):
                status, _, got = server.ask("/v2/models/alexnet-conv1/infer", body, headers)
                with lock:
                    statuses.append(status)
                    if status == 503:
                        retry.append(got["Retry-After"])

        threads = [threading.Thread(target=client) for _ in range(12)]
        together(threads)
        self.assertEqual(set(statuses), {200, 503})
        self.assertEqual(set(retry), {"1"})

        # SIGTERM: what was accepted is answered.
        answers = []
        path = "/v2/models/alexnet-conv1/infer"
        late = [threading.Thread(target=lambda: answers.append(server.ask(path, body, headers)[0])) for _ in range(2)]
        for thread in late:
            thread.start()
        time.sleep(0.05)
        self.assertEqual(server.stop(), 0)
        for thread in late:
            thread.join()
        self.assertTrue(set(answers) <= {200, 503} and len(answers) == 2, answers)

    def test_what_it_cannot_serve_is_an_error(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.refuses(("--port", str(taken.getsockname()[1])), "Address already in use")
        for arguments, words in ((("--model", "nothing.safetensors"), "nothing.safetensors"),
                                 (("--model", "weights/digits.safetensors", "--model", "weights/digits.safetensors"), "two models"),
                                 (("--host", "nowhere.invalid"), "cannot listen")):
            self.refuses(("--port", "0", *arguments), words)
        self.refuses(("--path", "nowhere"), "--path: there is no folder", 2)

    def refuses(self, arguments, words, code=1):
        run = subprocess.run([LAMINA, "serve", "--device", "cpu", *arguments], cwd=SOURCE, capture_output=True, text=True,
                             timeout=60)
        self.assertEqual(run.returncode, code, run)
        self.assertIn(words, run.stderr)


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory() as DIRECTORY:
        unittest.main(argv=sys.argv[:1] + sys.argv[3:])
