"""The page as something looks at it, and what it has to show: what `lamina run` computes."""

import json
import struct
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "apps/serve/page"
SIDE, WINDOW, STRIDE, PADDING = 224, 11, 4, 2
DROP = """Promise.all(%s.map(name => fetch('/' + name).then(r => r.blob()).then(b => new File([b], name)))).then(files => {
    const d = new DataTransfer();
    for (const file of files) d.items.add(file);
    document.dispatchEvent(new DragEvent('drop', {dataTransfer: d, bubbles: true, cancelable: true})); })"""


def colours():
    stops = [(38, 34, 74), (98, 46, 142), (204, 66, 108), (250, 154, 56), (255, 250, 205)]
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


def single(text):
    """The bits of a number as f32."""
    return struct.pack("<f", float(text))


class Page:
    def __init__(self, browser, lamina, address, out, axe=""):
        self.browser, self.lamina, self.address, self.out, self.axe = browser, lamina, address, out, axe

    def go(self, fragment=""):
        self.browser.call("Page.navigate", url="about:blank")
        self.browser.call("Page.navigate", url=self.address + fragment)
        self.settled()

    def settled(self):
        self.browser.wait("typeof state !== 'undefined' && state.maps && document.body.dataset.ready && !$('found').hidden")

    def shoot(self, name):
        self.browser.screenshot(self.out / f"{name}.png")

    def for_everybody(self, name):
        """On a desk and a phone, in light and dark, what is shown now: nothing is cut off, axe finds nothing. Screenshots."""
        for width, height, phone in ((1280, 900, False), (390, 844, True)):
            self.browser.window(width, height, phone)
            for scheme in ("light", "dark"):
                self.browser.prefers(color_scheme=scheme, reduced_motion="reduce")
                self.shoot(f"{name}-{width}-{scheme}")
                self.expect("document.documentElement.scrollWidth <= innerWidth", f"{name}, {width}: the page is wider than the screen")
                if self.axe:
                    self.browser.run(self.axe + "; 0")
                    found = self.browser.run("axe.run().then(r => r.violations.map(v => `${v.id}: ${v.help}: ${v.nodes.map(n => n.target).join(' ')}`))")
                    assert not found, f"{name}, {width}, {scheme}: " + "\n".join(found)
        self.browser.window(1280, 900)
        self.browser.prefers(color_scheme="light")

    def expect(self, script, what):
        assert self.browser.run(script), f"{what}: {script}"

    def maps(self, photo):
        """What `lamina run` makes of it."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.lamina, "run", "--model", str(ROOT / "weights/alexnet-conv1.safetensors"), "--input", str(photo),
                            "--device", "cpu", "--out", f"{folder}/maps.safetensors"], check=True, stdout=subprocess.DEVNULL)
            return read_tensor(f"{folder}/maps.safetensors")

    def number_is(self, photo, filter, row, column, found=None):
        (_, _, height, width), values = found or self.maps(photo)
        expected = values[(filter * height + row) * width + column]
        shown = self.browser.run("[$('number').dataset.value, $('exact').textContent, state.shown, state.place.row, state.place.column]")
        assert shown[2:] == [filter, row, column], f"expected filter {filter} at row {row}, column {column}, got {shown}"
        assert single(shown[0]) == struct.pack("<f", expected), f"the page shows {shown[0]}, lamina run gives {expected!r}"
        assert f"Exactly {shown[0]}:" in shown[1], shown

    def choose_file(self, path):
        root = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        file = self.browser.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=file, files=[str(path)])
