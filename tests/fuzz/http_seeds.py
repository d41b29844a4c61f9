"""What the fuzzer of `lamina serve` starts from: requests as a connection carries them."""

import gzip
import json
import zlib


def requests(photo):
    def request(line, headers=(), body=b""):
        return "".join(text + "\r\n" for text in (line + " HTTP/1.1", "Host: localhost", *headers, "")).encode() + body

    def post(path, body, *headers):
        return request(f"POST {path}", (f"Content-Length: {len(body):06}", *headers), body)

    def chunked(path, body, size, extension=b"", trailer=b""):
        pieces = [body[at:at + size] for at in range(0, len(body), size)]
        text = b"".join(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces)
        return request(f"POST {path}", ("Transfer-Encoding: chunked",), text + b"0\r\n" + trailer + b"\r\n")
    infer = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 3, 8, 8], "data": [1] * 192}]}
    text = json.dumps(infer).encode()
    yield "infer", post("/v2/models/tiny/infer", text)
    asked = dict(infer, id="7", outputs=[{"name": "scores", "parameters": {"binary_data": True}}], parameters={"binary_data_output": True})
    yield "outputs", post("/v2/models/tiny/versions/1/infer", json.dumps(asked).encode())
    head = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 3, 8, 8],
                                   "parameters": {"binary_data_size": 768}}]}).encode()
    yield "binary", post("/v2/models/tiny/infer", head + bytes(768), f"Inference-Header-Content-Length: {len(head)}")
    yield "classify", post("/classify?model=tiny&top=3", photo)
    yield "features", post("/features?layer=conv", photo)
    yield "maps", post("/features?layer=relu&model=tiny", photo, "Accept: application/octet-stream")
    form = b"--xyz\r\nContent-Disposition: form-data; filename=\"a.png\"\r\n\r\n" + photo + b"\r\n--xyz--\r\n"
    yield "form", post("/classify", form, 'Content-Type: multipart/form-data; boundary="xyz"')
    yield "gzip", post("/v2/models/tiny/infer", gzip.compress(text, mtime=0), "Content-Encoding: gzip")
    yield "deflate", post("/v2/models/tiny/infer", zlib.compress(text), "Content-Encoding: deflate")
    yield "chunked", chunked("/v2/models/tiny/infer", text, 100)
    yield "extensions", chunked("/classify", photo, 50, b';a=1;b="c"', b"Content-Encoding: gzip\r\n")
    live = request("GET /v2/health/live")
    yield "pipelined", live * 3 + chunked("/classify", photo, 1000) + post("/classify", photo) + live
    yield "expect", post("/classify", photo, "Expect: 100-continue")
    yield "old", b"GET /v2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + live
    for name, line, body in (("two-lengths", "Content-Length: 2\r\nContent-Length: 2", b"{}"), ("length-list", "Content-Length: 2, 2", b"{}"),
                             ("hexadecimal", "Content-Length: 0x30", b"{}"), ("both", "Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
                             ("encoding-space", "Transfer-Encoding : chunked", b"0\r\n\r\n"), ("encodings", "Transfer-Encoding: gzip, chunked", b"0\r\n\r\n"),
                             ("folded", "Transfer-Encoding:\r\n chunked", b"0\r\n\r\n"), ("line-feed", "Content-Length: 2\nX: y", b"{}")):
        yield name, request("POST /classify", (line,), body) + live
    yield "body-of-get", request("GET /v2", ("Content-Length: 5",), b"hello") + live
    yield "rebinding", request("GET /models", ("Origin: http://evil.example",)) + b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/tiny", "/v2/models/tiny/config", "/v2/models/tiny/ready",
                 "/models", "/filters", "/filters?layer=conv", "/profile?model=tiny", "/metrics", "/", "/app.js", "/nothing"):
        yield "get" + path.replace("/", "-").replace("?", "-"), request(f"GET {path}")
