"""A headless Chromium, driven by the DevTools protocol over a WebSocket: as little of both as is needed."""

import base64
import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


class Browser:
    """The DevTools protocol over a WebSocket, as little of both as is needed."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0",
             "--disable-dev-shm-usage", f"--user-data-dir={folder}", "about:blank"], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"ws://([^/]+)/", line):
                break
        else:
            sys.exit("Chromium does not start")
        pages = json.load(urllib.request.urlopen(f"http://{found[1]}/json/list"))
        path = next(page for page in pages if page["type"] == "page")["webSocketDebuggerUrl"].split(found[1])[1]
        host, port = found[1].split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {found[1]}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n"
                            "Sec-WebSocket-Version: 13\r\n\r\n".encode())
        self.stream = self.socket.makefile("rb")
        while self.stream.readline() != b"\r\n":
            pass
        self.number = 0

    def receive(self):
        text = b""
        while True:
            first, second = self.stream.read(2)
            length = second & 127
            if length == 126:
                length = struct.unpack(">H", self.stream.read(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self.stream.read(8))[0]
            text += self.stream.read(length)
            if first & 128:
                return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        data = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        head = struct.pack(">BBQ", 129, 255, len(data)) if len(data) > 65535 else struct.pack(">BBH", 129, 254, len(data))
        mask = os.urandom(4)
        self.socket.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    def key(self, name):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode={
                "PageUp": 33, "PageDown": 34, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Escape": 27}[name])

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def window(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def prefers(self, **features):
        self.call("Emulation.setEmulatedMedia", features=[{"name": f"prefers-{name.replace('_', '-')}", "value": value}
                                                          for name, value in features.items()])

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            sys.exit(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script, seconds=20):
        end = time.time() + seconds
        while not self.run(script):
            if time.time() > end:
                sys.exit(f"waited in vain for {script}; the page says: {self.run('$(`status`).textContent')}")
            time.sleep(0.01)

    def screenshot(self, path):
        time.sleep(0.3)
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
