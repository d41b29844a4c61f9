"""What the page shows of models that find things, or colour a photograph."""

import json
import struct
import tempfile

from page.served import served
from page.shown import DROP, PAGE, ROOT, Page


def detector(browser, lamina, out, axe):
    """Where only detectors are served, what they find is drawn over the photograph."""
    for task in ("raw", "pose", "obb", "segment"):
        with served(lamina, PAGE, "--model", ROOT / f"tests/golden/detect/{task}.onnx") as address:
            browser.call("Page.navigate", url=address)
            browser.wait("document.getElementById('found') && !document.getElementById('found').hidden && document.body.dataset.ready")
            page = Page(browser, lamina, address, out, axe)
            page.expect("$('status').textContent === '' && !$('found').querySelector('.error')", "nothing is complained of")
            page.expect("/finds [0-9]+ things$/.test($('found').querySelector('h2').textContent)", "it says how many")
            page.expect("$('cards').querySelectorAll('.bar').length > 1 && $('cards').querySelector('canvas').width > 100", "a line for each")
            page.expect("(({ labels, width, height }) => labels.length > 1 && labels.reduce((sum, l) => sum + l.wide * l.high, 0) < width * height / 4 && "
                        "labels.every((a, i) => labels.every((b, j) => i <= j || a.x >= b.x + b.wide || b.x >= a.x + a.wide || a.y >= b.y + b.high || "
                        "b.y >= a.y + a.high)))($('cards').querySelector('canvas'))", "labels hide neither each other nor the picture")
            page.for_everybody(f"detector-{task}")
            browser.run("$('examples').querySelector('[data-photo=rocket]').click()")
            browser.wait("state.example === 'rocket' && $('cards').shown.photos === state.photos && !$('found').hidden")
            browser.run(DROP % "['cat.jpg', 'coffee.jpg', 'rocket.jpg']")
            browser.wait("state.photos.length === 3 && $('cards').querySelectorAll('button').length === 3")
            browser.run("$('cards').querySelectorAll('figcaption')[1].click()")
            browser.wait("state.at === 1 && !$('closer').hidden && $('closer').querySelectorAll('.bar').length > 3")
            browser.wait("$('closer').getBoundingClientRect().top < innerHeight / 2")
            browser.run("$('closer').querySelector('.bar').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))")
            page.expect("!$('closer').querySelector('.mark').hidden", "the thing of a row is marked")
            page.for_everybody(f"detector-{task}-three")
            browser.run("window.before = $('closer').querySelectorAll('.bar').length; $('confidence').value = 0.9; $('confidence').dispatchEvent(new Event('input')); $('confidence').dispatchEvent(new Event('change'))")
            browser.wait("$('cards').shown.path.includes('confidence=0.9') && $('closer').querySelectorAll('.bar').length < window.before")
            page.expect("$('sure').querySelector('output').value === '90 %'", "how sure it has to be")


def segmenter(browser, lamina, out, axe):
    """The colours of `lamina segment`: here of each pixel that of its strongest colour."""
    graph = {"version": 1, "inputs": [{"name": "x", "shape": ["N", 3, 224, 224]}], "outputs": ["r"], "nodes": [{"name": "r", "op": "relu", "inputs": ["x"]}]}
    text = json.dumps({"__metadata__": {"lamina.graph": json.dumps(graph), "lamina.labels": "red\ngreen\nblue"}}).encode()
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.flush()
        with served(lamina, PAGE, "--model", file.name, "--model", ROOT / "tests/golden/nonzero.onnx") as address:
            page = Page(browser, lamina, address, out, axe)
            browser.call("Page.navigate", url=address + "#photo=rocket")
            browser.wait("typeof state !== 'undefined' && document.body.dataset.ready && $('found') && !$('found').hidden")
            page.expect("/sees (red|blue)/.test($('found').querySelector('h2').textContent)", "the names of classes")
            page.expect("$('cards').querySelectorAll('.bar').length > 1 && $('see').hidden", "a line for each class")
            drawn = browser.run("[...$('cards').querySelector('canvas').getContext('2d').getImageData(5, 5, 1, 1).data]")
            plain = browser.run("(c => { c.width = 720; c.height = 480; c.getContext('2d').drawImage(state.photos[0].bitmap, 0, 0, 720, 480); "
                                "return [...c.getContext('2d').getImageData(5, 5, 1, 1).data]; })(document.createElement('canvas'))")
            assert drawn != plain, f"a corner of the photograph has no colour of a class: {drawn}"
            page.expect("$('without').textContent.startsWith('Not shown here: nonzero. No photographs go in')", "what the page has nothing of")
            page.for_everybody("segmenter")
