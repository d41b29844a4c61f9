#!/usr/bin/env python3
"""How `lamina serve` reads HTTP, by raw sockets on loopback: what it serves and what not (request smuggling, other sites'
pages), slow clients, memory. http_test.py LAMINA SOURCE"""

import gzip
import json
import os
import select
import socket
import sys
import threading
import time
import unittest
from pathlib import Path

from http_requests import CLASSIFY, DIGIT, LIVE, MAX_BODY, REFUSED, chunked, head
from serving import Server, together

LAMINA, SOURCE = sys.argv[1], Path(sys.argv[2])
ALONE = Path(LAMINA).name == "serve_alone"  # under a sanitizer

class Client:
    def __init__(self, port, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # it need not be read to its end
        return self

    def answer(self, body=True):
        """(status, headers by lower name, body), or None where the server has closed."""
        try:
            line = self.stream.readline()
            if not line:
                return None
            headers = {}
            while (field := self.stream.readline().strip()):
                name, _, value = field.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            size = int(headers.get("content-length", 0)) if body else 0
            return int(line.split()[1]), headers, self.stream.read(size)
        except ConnectionResetError:
            return None

    def statuses(self):
        """Of all answers until the server closes."""
        result = []
        while (answer := self.answer()) is not None:
            result.append(answer[0])
        return result


class Reading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(LAMINA, SOURCE, "--max-body", str(MAX_BODY >> 20), "--model", "weights/digits.safetensors")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, "SIGTERM: expected exit code 0"

    def client(self):
        return Client(self.server.port)

    def test_what_can_be_understood_in_two_ways_is_refused_and_nothing_read_behind_it(self):
        for name, (request, status) in REFUSED.items():
            with self.subTest(name), self.client() as client:
                self.assertEqual(client.send(request + LIVE).statuses(), [status])

    def test_a_connection_carries_many_requests(self):
        body = json.dumps({"inputs": []}).encode()
        length = f"Content-Length: {len(body)}"
        for name, request, status in (
                ("GET", LIVE, 200),
                ("a field in small letters", LIVE.replace(b"Host", b"host"), 200),
                ("GET of length 0", head("GET /v2 HTTP/1.1", "Content-Length: 0"), 200),
                ("a port, IPv6", head("GET /v2 HTTP/1.1", host="[::1]:8080"), 200),
                ("length", head(CLASSIFY, f"Content-Length: {len(DIGIT)}") + DIGIT, 200),
                ("chunks", head(CLASSIFY, "Transfer-Encoding: chunked") + chunked(DIGIT), 200),
                ("one chunk", head(CLASSIFY, "Transfer-Encoding: Chunked") + chunked(DIGIT, 1 << 20), 200),
                ("chunks of one byte", head(CLASSIFY, "Transfer-Encoding: chunked") + chunked(DIGIT, 1), 200),
                ("extensions", head(CLASSIFY, "Transfer-Encoding: chunked") + chunked(DIGIT, 9, b';a;b=1;c="d"'), 200),
                ("a trailer", head(CLASSIFY, "Transfer-Encoding: chunked") + chunked(DIGIT)[:-2] + b"Content-Encoding: gzip\r\n\r\n", 200),
                ("gzip", head(CLASSIFY, f"Content-Length: {len(gzip.compress(DIGIT))}", "Content-Encoding: gzip") + gzip.compress(DIGIT), 200),
                ("a page of ours", head(CLASSIFY, f"Content-Length: {len(DIGIT)}", "Origin: http://localhost") + DIGIT, 200),
                ("a path that is not there", head("GET /nothing HTTP/1.1"), 404),
                ("a body that does not fit", head("POST /v2/models/digits/infer HTTP/1.1", length) + body, 400),
                ("an encoding that is unknown", head(CLASSIFY, length, "Content-Encoding: br") + body, 415)):
            with self.subTest(name), self.client() as client:
                for _ in range(2):
                    self.assertEqual(client.send(request).answer()[0], status)
                for byte in request[:-1] if len(request) < 2000 else b"":  # however it is cut
                    client.send(bytes([byte]))
                self.assertEqual((client.send(request[-1:] if len(request) < 2000 else request).answer()[0]), status)
                client.send((request + LIVE) * 2)
                self.assertEqual([client.answer()[0] for _ in range(4)], [status, 200] * 2)

    def test_pipelined_requests_are_answered_in_their_order(self):
        with self.client() as client:
            client.send((LIVE + head("GET /v2 HTTP/1.1") + head(CLASSIFY, f"Content-Length: {len(DIGIT)}") + DIGIT) * 20)
            for _ in range(20):
                self.assertEqual(client.answer()[2], b"")
                self.assertIn(b"lamina", client.answer()[2])
                self.assertIn(b"seven", client.answer()[2])

    def test_connections_close_when_they_are_asked_to(self):
        for request, closes in ((head("GET /v2 HTTP/1.1", "Connection: close"), True), (head("GET /v2 HTTP/1.0"), True),
                                (head("GET /v2 HTTP/1.0", "Connection: keep-alive"), False)):
            with self.client() as client:
                status, headers, _ = client.send(request).answer()
                self.assertEqual((status, headers.get("connection", "") == "close"), (200, closes))
                self.assertEqual(client.send(LIVE).answer() is None, closes)

    def test_head_has_the_length_and_no_body(self):
        with self.client() as client:
            whole = client.send(head("GET /v2 HTTP/1.1")).answer()
            status, headers, _ = client.send(head("HEAD /v2 HTTP/1.1")).answer(body=False)
            self.assertEqual((status, headers["content-length"]), (200, str(len(whole[2]))))
            self.assertEqual(client.send(LIVE).answer()[0], 200)

    def test_a_client_that_asks_before_it_sends(self):
        with self.client() as client:
            client.send(head(CLASSIFY, f"Content-Length: {len(DIGIT)}", "Expect: 100-continue"))
            self.assertEqual(client.answer()[0], 100)
            self.assertEqual(client.send(DIGIT).answer()[0], 200)
            client.send(head(CLASSIFY, f"Content-Length: {len(DIGIT)}", "Expect: 100-continue") + DIGIT)  # sent anyway
            self.assertEqual(client.answer()[0], 200)
            client.send(head(CLASSIFY, f"Content-Length: {MAX_BODY + 1}", "Expect: 100-continue"))
            self.assertEqual(client.statuses(), [413])

    def test_no_other_site_frames_the_page_or_embeds_what_is_answered(self):
        for path in ("/", "/v2", "/nothing"):
            headers = self.server.ask(path)[2]
            self.assertEqual((headers["Cross-Origin-Resource-Policy"], headers["X-Content-Type-Options"]), ("same-origin", "nosniff"))
        self.assertIn("frame-ancestors 'none'", self.server.ask("/")[2]["Content-Security-Policy"])


class Names(unittest.TestCase):
    def statuses(self, *arguments):
        server = Server(LAMINA, SOURCE, "--model", "weights/digits.safetensors", *arguments)
        found = []
        for host, *origin in (("demo.example",), ("demo.example:443", "https://demo.example"), ("evil.example",),
                              ("evil.example", "http://evil.example"), ("127.0.0.1", "https://DEMO.example")):
            with Client(server.port) as client:
                client.send(head("GET /v2 HTTP/1.1", *(f"Origin: {site}" for site in origin), host=host))
                found.append(client.answer()[0])
        self.assertEqual(server.stop(), 0)
        return found

    def test_names_are_allowed(self):
        self.assertEqual(self.statuses(), [403] * 5)
        self.assertEqual(self.statuses("--allow-host", "Demo.example"), [200, 200, 403, 403, 200])


class Scarcity(unittest.TestCase):
    """What clients hold, all of them together, has a bound."""

    def test_memory(self):
        server = Server(LAMINA, SOURCE, "--memory", "256M", "--max-batch", "8", "--model", "weights/digits.safetensors",
                        "--model", "weights/alexnet-conv1.safetensors")
        bound = 256 // 4 + 60  # a quarter is for requests; what the sockets' buffers and the allocator keep
        if ALONE:
            bound = 1 << 20  # a sanitizer keeps what was freed
        infer = "POST /v2/models/digits/infer HTTP/1.1"
        before = server.most_memory()

        unfinished = [Client(server.port) for _ in range(12)]
        together([threading.Thread(target=each.send, args=(head(CLASSIFY, f"Content-Length: {60 << 20}") + b"a" * (50 << 20),))
                  for each in unfinished])
        time.sleep(0.5)
        answered = [each.answer() for each in unfinished if select.select([each.socket], [], [], 0)[0]]
        self.assertGreater(len(answered), 9)
        self.assertTrue(all(answer is None or answer[0] == 503 for answer in answered), answered)
        for each in unfinished:
            each.__exit__()
        self.assertLess(server.most_memory() - before, bound, "unfinished bodies of 50 MB")

        text = b'{"a":[' + b"0," * (31 << 20) + b"0]}"
        bomb = gzip.compress(text, 9)
        text = json.dumps({"inputs": [], "outputs": [{"name": "x"}] * 1000000}).encode()
        many = gzip.compress(text, 9)
        statuses = []

        def post(packed):
            with Client(server.port) as client:
                client.send(head(infer, f"Content-Length: {len(packed)}", "Content-Encoding: gzip", "Connection: close") + packed)
                statuses.extend(client.statuses())
        together([threading.Thread(target=post, args=(packed,)) for packed in (bomb, many) * 4])
        self.assertEqual(len(statuses), 8)
        self.assertTrue(set(statuses) <= {413, 503}, statuses)
        self.assertLess(server.most_memory() - before, bound, "gzip bodies of 63 MB")

        # Answers of 9 MB that nobody reads
        size = 4 * 8 * 3 * 224 * 224
        request = json.dumps({"inputs": [{"name": "input", "shape": [8, 3, 224, 224], "datatype": "FP32",
                                          "parameters": {"binary_data_size": size}}], "parameters": {"binary_data_output": True}}).encode()
        line = "POST /v2/models/alexnet-conv1/infer HTTP/1.1"
        asked = head(line, f"Inference-Header-Content-Length: {len(request)}", f"Content-Length: {len(request) + size}") + request + bytes(size)
        readers = [Client(server.port) for _ in range(16)]
        for each in readers:
            each.send(asked)
        time.sleep(2)
        self.assertLess(server.most_memory() - before, bound + 60, "answers that nobody reads")  # and a batch's tensors
        found = [each.answer()[0] for each in readers]
        self.assertTrue(200 in found and set(found) <= {200, 503}, found)
        for each in readers:
            each.__exit__()
        self.assertEqual(server.json("/classify?model=digits", DIGIT)[0], 200)
        self.assertEqual(server.stop(), 0)

    def test_slow_clients(self):
        server = Server(LAMINA, SOURCE, "--model", "weights/digits.safetensors")
        long = "LAMINA_TEST_LONG" in os.environ
        slow = {"head": (b"GET /v2 HTTP/1.1\r\nX: ", 10)}
        if long:
            slow["body"] = (head(CLASSIFY, "Content-Length: 100000"), 20)
            slow["chunks"] = (head(CLASSIFY, "Transfer-Encoding: chunked"), 20)
        clients = []
        for kind, (begin, seconds) in slow.items():
            clients += [(kind, Client(server.port).send(begin), seconds) for _ in range(100)]
        began, ended = time.time(), {}
        while len(ended) < len(clients) and time.time() < began + 40:
            asked = time.time()
            self.assertEqual(server.ask("/v2/health/live")[0], 200)
            self.assertLess(time.time() - asked, 2, "slow clients keep nobody waiting")
            for i, (_, client, _) in enumerate(clients):
                client.send(b"1")
                if i not in ended and select.select([client.socket], [], [], 0)[0]:
                    ended[i] = time.time() - began
            time.sleep(1)
        for i, (kind, client, seconds) in enumerate(clients):
            self.assertIn(i, ended, kind)
            self.assertLess(ended[i], seconds + 5, kind)
            self.assertGreater(ended[i], seconds - 3, kind)
            client.__exit__()
        self.assertEqual(server.stop(), 0)

    def test_more_connections_than_there_may_be(self):
        server = Server(LAMINA, SOURCE, "--model", "weights/digits.safetensors", files=300)
        slow = [Client(server.port).send((b"GET /v2 HTTP/1.1\r\nX: ", head(CLASSIFY, "Content-Length: 9"), LIVE)[i % 3]) for i in range(400)]
        for _ in range(5):
            self.assertEqual(server.json("/classify?model=digits", DIGIT)[0], 200)
        for each in slow:
            each.__exit__()
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
