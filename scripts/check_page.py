#!/usr/bin/env python3
"""Drives the page of `lamina serve` with a headless Chromium: gives it a photograph, waits for the maps, moves to a
filter, clicks a place, and compares what the canvases show with `lamina features --out`. Writes screenshots at
the widths of a desk and a phone.

    scripts/check_page.py --lamina build/cpu/bin/lamina [--photo docs/images/coffee.png] [--out pictures]
"""

import argparse
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


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

    def screenshot(self, path, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        time.sleep(0.3)
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


def colours():
    stops = [(0, 0, 4), (40, 60, 140), (160, 70, 130), (250, 150, 60), (252, 253, 220)]
    table = []
    for i in range(256):
        at = i / 255 * (len(stops) - 1)
        k = min(int(at), len(stops) - 2)
        table.append([int(a + (b - a) * (at - k) + 0.5) for a, b in zip(stops[k], stops[k + 1])])
    return table


def read_tensor(path):
    """The shape and values of a safetensors file with one tensor."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensor = next(entry for name, entry in json.loads(data[8:8 + length]).items() if name != "__metadata__")
    begin, end = (8 + length + offset for offset in tensor["data_offsets"])
    return tensor["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default=str(ROOT / "build/release/bin/lamina"))
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--photo", default=str(ROOT / "docs/images/coffee.png"))
    parser.add_argument("--out", help="a folder for screenshots")
    options = parser.parse_args()
    if options.chromium is None:
        sys.exit("check_page.py: there is no Chromium (apt install chromium)")
    folder = tempfile.mkdtemp()
    server = subprocess.Popen([options.lamina, "serve", "--port", "0", "--device", "cpu", "--path",
                               str(ROOT / "apps/serve/page")], stdout=subprocess.PIPE, text=True)
    browser = None
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        browser = Browser(options.chromium, folder)
        out = Path(options.out) if options.out else Path(folder)
        out.mkdir(exist_ok=True)
        browser.call("Emulation.setDeviceMetricsOverride", width=1400, height=950, deviceScaleFactor=1, mobile=False)
        browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
        browser.call("Page.navigate", url=address)
        browser.wait("document.readyState === 'complete' && state.models.length > 0")
        browser.wait("performance.getEntriesByName('first-contentful-paint').length")
        paint = browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        browser.wait("!$('before').hidden")
        browser.screenshot(out / "empty.png", 1400, 950)
        root = browser.call("DOM.getDocument")["root"]["nodeId"]
        file = browser.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        took = []
        for _ in range(5):
            browser.run("delete document.body.dataset.ready; $('file').value = ''; window.began = 0;"
                        "$('file').addEventListener('change', () => window.began = performance.now(), {once: true, capture: true});"
                        "window.over = new Promise(done => new MutationObserver((_, o) => { if (document.body.dataset.ready) "
                        "{ o.disconnect(); done(performance.now()); } }).observe(document.body, {attributes: true})); 0")
            browser.call("DOM.setFileInputFiles", nodeId=file, files=[str(Path(options.photo).resolve())])
            took.append(browser.run("window.over.then(t => t - window.began)"))
        browser.wait("$('bars').children.length > 0")

        maps = Path(folder) / "maps.safetensors"
        subprocess.run([options.lamina, "features", options.photo, "--device", "cpu", "--out", str(maps)], check=True, stdout=subprocess.DEVNULL)
        shape, values = read_tensor(maps)
        table, size = colours(), shape[2] * shape[3]
        assert browser.run("document.querySelectorAll('#maps button').length") == shape[1], "a button for each map"
        for index in (0, 17, shape[1] - 1):
            shown = browser.run(f"[...document.querySelector('[data-map=\"{index}\"] canvas.map').getContext('2d')"
                                f".getImageData(0, 0, {shape[3]}, {shape[2]}).data]")
            one = values[index * size:(index + 1) * size]
            low, high = min(0, min(one)), max(one)
            wrong = 0
            for place, value in enumerate(one):
                level = min(255, max(0, int((value - low) * 255 / (high - low) + 0.5))) if high > low else 0
                wrong += any(abs(a - b) > 2 for a, b in zip(table[level], shown[4 * place:4 * place + 3]))
            assert wrong == 0, f"map {index}: {wrong} of {size} pixels differ from lamina features"

        browser.run("$('sort').value = 'strength'; $('sort').dispatchEvent(new Event('change'))")
        browser.run("document.querySelector('#maps button').focus()")
        browser.wait("state.shown >= 0 && $('detail').textContent.includes('mean')")
        browser.screenshot(out / "desk.png", 1400, 950)
        browser.run("const box = $('stage').getBoundingClientRect(); $('stage').dispatchEvent(new MouseEvent('click', "
                    "{bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + box.height / 2}))")
        browser.wait("state.place && $('sort').value === 'place' && $('detail').textContent.includes('marked place')")
        browser.run("$('model').value = 'digits'; $('model').dispatchEvent(new Event('change'))")
        browser.wait("state.info && state.info.model === 'digits' && $('status').textContent === ''")
        browser.wait("$('doubt').textContent.includes('it is not sure of this photograph')")
        browser.run("$('steps').open = true")
        browser.wait("$('profile').children.length > 3")
        browser.screenshot(out / "digits.png", 1400, 1200)
        browser.run("$('steps').open = false; $('model').value = 'alexnet-conv1'; $('model').dispatchEvent(new Event('change'))")
        browser.wait("state.info.model === 'alexnet-conv1' && $('status').textContent === ''")
        browser.run("document.querySelector('#maps button').click()")
        browser.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        browser.run("document.querySelectorAll('#maps button')[30].scrollIntoView({block: 'center'})")
        browser.screenshot(out / "phone-maps.png", 390, 844, phone=True)
        browser.run("scrollTo(0, 0)")
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        browser.screenshot(out / "dark.png", 1400, 950)
        browser.screenshot(out / "phone.png", 390, 844, phone=True)
        assert browser.run("$('caption').getBoundingClientRect().height > 40"), "a phone shows what can be done"
        # What no browser draws goes to the server, and so does what nobody can read, whose words are then shown.
        for name, shown in (("tests/golden/images/colour.ppm", "state.bitmap.width === 40 && $('status').textContent === ''"),
                            ("README.md", "$('status').textContent.includes('expected a photograph: PNG')")):
            browser.call("DOM.setFileInputFiles", nodeId=file, files=[str(ROOT / name)])
            browser.wait(shown)
        browser.screenshot(out / "refused.png", 390, 844, phone=True)
        assert browser.run("document.documentElement.scrollWidth") <= 390, "the page is wider than a phone"
        print(f"first paint {paint:.0f} ms; photograph to maps {min(took):.0f} ms (of {len(took)}, the slowest {max(took):.0f});"
              f" all checks passed{'; screenshots in ' + str(out) if options.out else ''}")
    finally:
        if browser:
            browser.process.terminate()
            browser.process.wait()
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
