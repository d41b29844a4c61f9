"""A `lamina serve` of a test's own, and clients that come together."""

import http.client
import json
import resource
import signal
import subprocess


class Server:
    def __init__(self, lamina, source, *arguments, files=None):
        """`files`: how many it may have open."""
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))) if files else None
        self.process = subprocess.Popen([lamina, "serve", "--port", "0", "--device", "cpu", *arguments], preexec_fn=limit,
                                        cwd=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = int(line.split("127.0.0.1:")[1].split("/")[0]) if "127.0.0.1:" in line else 0

    def ask(self, path, body=None, headers=None, method=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = headers or {}
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers,
                           encode_chunked="Transfer-Encoding" in headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, content, response.headers

    def json(self, *arguments, **more):
        status, content, _ = self.ask(*arguments, **more)
        return status, json.loads(content)

    def most_memory(self):
        """MiB that it ever had."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def together(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
