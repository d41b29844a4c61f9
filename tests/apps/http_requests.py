"""Requests to `lamina serve` that it does not serve."""

from pathlib import Path

DIGIT = (Path(__file__).resolve().parents[2] / "weights/digits/7.png").read_bytes()
MAX_BODY = 4 << 20
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLASSIFY = "POST /classify?model=digits HTTP/1.1"


def head(line, *fields, host="localhost"):
    return "".join(f"{text}\r\n" for text in (line, *([f"Host: {host}"] if host else []), *fields, "")).encode("latin-1")


def chunked(body, size=100, extension=b""):
    pieces = [body[at:at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces) + b"0\r\n\r\n"


# What is sent, and the one answer to it: then the connection is closed, and what came behind it is no request.
LENGTH = f"Content-Length: {len(LIVE)}"
REFUSED = {
    "GET with a body": (head("GET /v2 HTTP/1.1", LENGTH), 400),
    "HEAD with a body": (head("HEAD /v2 HTTP/1.1", LENGTH), 400),
    "GET with chunks": (head("GET /v2 HTTP/1.1", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "two lengths": (head(CLASSIFY, "Content-Length: 2", LENGTH) + b"{}", 400),
    "the same length twice": (head(CLASSIFY, "Content-Length: 2", "Content-Length: 2") + b"{}", 400),
    "a list of lengths": (head(CLASSIFY, "Content-Length: 2, 2") + b"{}", 400),
    "a hexadecimal length": (head(CLASSIFY, "Content-Length: 0x30"), 400),
    "a signed length": (head(CLASSIFY, "Content-Length: +2") + b"{}", 400),
    "a negative length": (head(CLASSIFY, "Content-Length: -1"), 400),
    "an empty length": (head(CLASSIFY, "Content-Length:"), 400),
    "a length beyond 64 bits": (head(CLASSIFY, "Content-Length: 18446744073709551618") + b"{}", 400),
    "a length beyond --max-body": (head(CLASSIFY, f"Content-Length: {MAX_BODY + 1}"), 413),
    "no length": (head(CLASSIFY), 411),
    "length, then encoding": (head(CLASSIFY, LENGTH, "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "encoding, then length": (head(CLASSIFY, "Transfer-Encoding: chunked", LENGTH) + b"0\r\n\r\n", 400),
    "a space before the colon": (head(CLASSIFY, "Transfer-Encoding : chunked") + b"0\r\n\r\n", 400),
    "a space within a name": (head(CLASSIFY, "Transfer Encoding: chunked") + b"0\r\n\r\n", 400),
    "two encodings": (head(CLASSIFY, "Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n", 501),
    "chunked twice": (head(CLASSIFY, "Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n", 501),
    "chunked in two lines": (head(CLASSIFY, *["Transfer-Encoding: chunked"] * 2) + b"0\r\n\r\n", 400),
    "another encoding": (head(CLASSIFY, "Transfer-Encoding: xchunked") + b"0\r\n\r\n", 501),
    "a quoted encoding": (head(CLASSIFY, 'Transfer-Encoding: "chunked"') + b"0\r\n\r\n", 501),
    "chunks in HTTP/1.0": (head(CLASSIFY.replace("1.1", "1.0"), "Transfer-Encoding: chunked") + b"0\r\n\r\n", 501),
    "a folded line": (head("GET /v2 HTTP/1.1", "X: a\r\n b"), 400),
    "a folded encoding": (head(CLASSIFY, "Transfer-Encoding:\r\n chunked") + b"0\r\n\r\n", 400),
    "a folded first line": (b"GET /v2 HTTP/1.1\r\n Host: localhost\r\n\r\n", 400),
    "LF alone": (head("GET /v2 HTTP/1.1", "X: a\nY: b"), 400),
    "all lines in LF alone": (LIVE.replace(b"\r\n", b"\n"), 400),
    "CR alone": (head("GET /v2 HTTP/1.1", "X: a\rY: b"), 400),
    "a zero byte": (head("GET /v2 HTTP/1.1", "X: a\0b"), 400),
    "no colon": (head("GET /v2 HTTP/1.1", "X"), 400),
    "no name": (head("GET /v2 HTTP/1.1", ": x"), 400),
    "an empty line first": (b"\r\n" + head("GET /v2 HTTP/1.1"), 400),
    "no Host": (head("GET /v2 HTTP/1.1", host=None), 400),
    "two Hosts": (head("GET /v2 HTTP/1.1", "Host: localhost"), 400),
    "another Host": (head("GET /v2 HTTP/1.1", host="evil.example"), 403),
    "a Host that begins as ours": (head("GET /v2 HTTP/1.1", host="localhost.evil.example"), 403),
    "a Host with a user": (head("GET /v2 HTTP/1.1", host="localhost@evil.example"), 400),
    "a Host with a user and a port": (head("GET /v2 HTTP/1.1", host="localhost:80@evil.example"), 400),
    "a Host with a port that is none": (head("GET /v2 HTTP/1.1", host="localhost:http"), 400),
    "a name twice in the query": (head("GET /profile?model=digits&m%6fdel=digits HTTP/1.1"), 400),
    "two Origins": (head("GET /models HTTP/1.1", "Origin: http://localhost", "Origin: http://localhost"), 400),
    "an Origin with a user": (head("GET /models HTTP/1.1", "Origin: http://localhost:80@evil.example"), 400),
    "another Host in HTTP/1.0": (head("GET /v2 HTTP/1.0", host="evil.example"), 403),
    "a whole URL": (head("GET http://evil.example/v2 HTTP/1.1"), 400),
    "OPTIONS": (head("OPTIONS * HTTP/1.1"), 405),
    "CONNECT": (head("CONNECT localhost:22 HTTP/1.1"), 405),
    "another version": (head("GET /v2 HTTP/2.0"), 400),
    "the version in small letters": (head("GET /v2 http/1.1"), 400),
    "two spaces": (head("GET  /v2 HTTP/1.1"), 400),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "a long head": (head("GET /v2 HTTP/1.1", "X: " + "a" * 20000), 431),
    "many fields": (head("GET /v2 HTTP/1.1", *["X: a"] * 5000), 431),
    "a long target": (head(f"GET /{'a' * 20000} HTTP/1.1"), 431),
    "a chunk's size with 0x": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"0x2\r\n{}\r\n0\r\n\r\n", 400),
    "a negative size": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"-2\r\n{}\r\n0\r\n\r\n", 400),
    "a size beyond 64 bits": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"10000000000000002\r\n{}\r\n0\r\n\r\n", 400),
    "a size beyond --max-body": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"ffffffffffffffff\r\n", 413),
    "no size": (head(CLASSIFY, "Transfer-Encoding: chunked") + b";\r\n{}\r\n0\r\n\r\n", 400),
    "a chunk that goes on": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"2\r\n{}{}\r\n0\r\n\r\n", 400),
    "a size's line in LF alone": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"2\n{}\r\n0\r\n\r\n", 400),
    "LF alone in an extension": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"2;\n{}\r\n0\r\n\r\n", 400),
    "a length in the trailer": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"0\r\n" + LENGTH.encode() + b"\r\n\r\n", 400),
    "an extension without end": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"2;" + b"a" * (1 << 20), 400),
    "a trailer without end": (head(CLASSIFY, "Transfer-Encoding: chunked") + b"0\r\n" + b"X: a\r\n" * (1 << 18), 400),
    "a page of another site": (head(CLASSIFY, f"Content-Length: {len(DIGIT)}", "Content-Type: text/plain",
                                    "Origin: http://evil.example") + DIGIT, 403),
    "a page of no site": (head(CLASSIFY, f"Content-Length: {len(DIGIT)}", "Origin: null") + DIGIT, 403),
    "a page whose site begins as ours": (head("GET /models HTTP/1.1", "Origin: http://localhost.evil.example"), 403),
}
