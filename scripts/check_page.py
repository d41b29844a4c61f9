#!/usr/bin/env python3
"""Drives the page of `lamina serve` with a headless Chromium as people do: opens it, watches the lesson, points, presses
keys, drops photographs, follows a link, on a desk and on a phone, in light and dark. What it shows is compared with
`lamina run`: every number to the bit, every map pixel by pixel. Writes screenshots.

    scripts/check_page.py --lamina build/cpu/bin/lamina [--out pictures] [--axe axe.min.js]

axe.min.js (in the wheel axe-playwright-python) looks for what keeps people with disabilities out.
"""

import argparse
import base64
import contextlib
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from page.chromium import Browser
from page.served import served
from page.shown import DROP, PADDING, PAGE, ROOT, SIDE, STRIDE, WINDOW, Page, colours
from page.tasks import detector, segmenter

def lesson(page):
    """On arrival a photograph and its whole map; on request pixel by pixel, then place by place."""
    browser = page.browser
    page.go()
    time.sleep(0.5)
    page.expect("!lesson && state.known === Infinity && state.shown === 54", "the whole map of the first window at once")
    browser.run("$('play').click()")
    browser.wait("lesson && $('words').textContent.includes('of 121 pixels')")
    page.shoot("lesson-pixels")
    browser.run("$('play').click(); window.paused = $('words').textContent")
    time.sleep(0.3)
    page.expect("lesson < 0 && $('words').textContent === paused && $('play').textContent === 'Go on'", "Pause holds the lesson")
    browser.run("$('play').click()")
    browser.wait("lesson > 0 && $('words').textContent !== paused && $('words').textContent.includes('of 121 pixels')")
    browser.wait("lesson && state.known > 30 && state.known < Infinity")
    page.shoot("lesson-places")
    browser.key("Escape")
    page.expect("!lesson && state.known === Infinity", "Escape ends the lesson")
    browser.run("$('play').click()")
    page.expect("state.example === 'cat' && document.querySelectorAll('#maps button').length === 96 && $('found').textContent.includes('“alexnet-conv1” names nothing, so “digits” answers.')", "a cat, its maps, and which model answers")
    browser.wait("!lesson")
    page.expect("state.known === Infinity && !$('cell').hidden", "the lesson ends with the whole map")


def numbers(page):
    """By pointer and by keys: every number is `lamina run`'s, and the maps are drawn of them."""
    browser, photo = page.browser, PAGE / "cat.jpg"
    (_, count, height, width), values = found = page.maps(photo)
    assert browser.run("document.querySelectorAll('#maps button').length") == count, "a button for each map"
    table, size = colours(), height * width
    for index in (0, 17, count - 1):
        shown = browser.run(f"[...document.querySelector('[data-map=\"{index}\"] canvas.map').getContext('2d')"
                            f".getImageData(0, 0, {width}, {height}).data]")
        scale, wrong = browser.run(f"state.scales[{index}]"), 0
        for place, value in enumerate(values[index * size:(index + 1) * size]):
            level = int(255 * min(1, math.sqrt(abs(value) / scale)) + 0.5)
            wrong += any(abs(a - b) > 2 for a, b in zip(table[level], shown[4 * place:4 * place + 3]))
        assert wrong == 0, f"map {index}: {wrong} of {size} pixels differ from lamina run"
    left, top, side = browser.run("(b => [b.left, b.top, b.width])($('photo').getBoundingClientRect())")
    filter = browser.run("state.shown")
    for row, column in ((0, 0), (20, 31), (height - 1, width - 1), (33, 7)):
        middle = [(STRIDE * at - PADDING + WINDOW / 2) / SIDE * side for at in (column, row)]
        browser.mouse("mouseMoved", left + min(side - 1, max(0, middle[0])), top + min(side - 1, max(0, middle[1])))
        page.number_is(photo, filter, row, column, found)
        total = browser.run("(p => p.sum + p.bias)(productsAt(state.shown, state.place))")
        value = values[(filter * height + row) * width + column]
        assert abs(max(0, total) - value) < 1e-5 * max(1, abs(value)), f"the products add up to {total}, the map has {value}"
    box = browser.run("(b => [b.left, b.top])($('frame').getBoundingClientRect())")
    assert abs(box[0] + 2 - left - (STRIDE * 7 - PADDING) / SIDE * side) < 1.5, "the frame is where the window is"
    page.shoot("desk")
    at = [left + side / 4, top + side / 4]
    for kind in ("mousePressed", "mouseReleased"):
        browser.mouse(kind, *at, button="left", clickCount=1)
    page.expect("state.kept === state.place && state.kept.row > 10", "a click keeps the place")
    browser.mouse("mouseMoved", left + side / 2, top + side - 2)
    page.expect("state.place.row > state.kept.row + 20", "the window follows the pointer after a click too")
    browser.mouse("mouseMoved", *browser.run("(b => [b.left + 5, b.top + 5])($('link').getBoundingClientRect())"))
    page.expect("state.place.row === state.kept.row && state.place.column === state.kept.column && location.hash.includes(encodeURIComponent(`${state.kept.row},${state.kept.column}`))", "on the way to the buttons it returns")
    browser.run(f"choose([...Array({count}).keys()].find(i => mapOf(i)[7] > 0)); goTo({{row: 0, column: 7}})")
    page.expect("$('words').textContent.includes(', where the photograph ends.')", "the end of the photograph is a part of what fits")
    browser.run(f"choose({filter})")
    browser.run("goTo({row: 33, column: 7}); document.activeElement.blur()")
    browser.key("ArrowRight")
    browser.key("ArrowUp")
    page.number_is(photo, filter, 32, 8, found)
    browser.key("PageDown")
    page.number_is(photo, filter + 1, 32, 8, found)
    browser.key("Home")
    best = max(range(size), key=lambda i: values[(filter + 1) * size + i])
    page.number_is(photo, filter + 1, best // width, best % width, found)
    browser.run("document.querySelector('#maps [aria-checked=true]').focus()")
    browser.key("ArrowLeft")
    page.number_is(photo, filter, best // width, best % width, found)
    browser.run("$('sort').value = 'place'; $('sort').dispatchEvent(new Event('change'))")
    first = browser.run("Number($('maps').firstChild.dataset.map)")
    assert first == max(range(count), key=lambda i: values[i * size + best]), "sorted by what fits at the window"
    browser.run("$('best').querySelectorAll('button')[1].click()")
    page.expect("state.place.row !== state.peaks[state.shown].row || state.place.column !== state.peaks[state.shown].column", "another bright place")
    browser.run("$('lay').click()")
    page.shoot("map-over-photo")
    browser.run("$('lay').click(); $('link').click()")
    link = browser.run("location.hash")
    place = browser.run("[state.shown, state.place.row, state.place.column, $('number').dataset.value]")
    browser.run("window.mine = pictureToKeep(); 0")
    (page.out / "kept.png").write_bytes(base64.b64decode(browser.run("mine.toDataURL()").split(",")[1]))
    page.expect("mine.width > 1000 && mine.toDataURL().length > 50000", "a picture to keep")
    return link, place


def other_photographs(page, link, place):
    browser = page.browser
    page.go(link)
    assert browser.run("[state.shown, state.place.row, state.place.column, $('number').dataset.value]") == place, "the link restores what was shown"
    page.go("#photo=seven&model=digits&layer=features.3&filter=5&place=3,4")
    page.expect("state.example === 'seven' && state.info.model === 'digits' && state.info.layer === 'features.3' && state.shown === 5", "a link to a layer of digits")
    page.expect("!state.colours && $('found').querySelector('h2').textContent.includes('says: seven') && !document.querySelector('.doubt')", "a seven is a seven")
    page.expect("state.layer.field.size[0] === 15 && state.layer.field.stride[0] === 2", "the receptive field of features.3")
    page.expect("$('best').querySelectorAll('button').length > 2", "its most excited places")
    total, value = browser.run("(p => [p.sum + p.bias, Number($('number').dataset.value)])(productsAt(5, state.place))")
    assert abs(total - value) < 1e-4 * max(1, abs(value)), f"the parts add up to {total}, the map has {value}"
    page.expect("two([...$('parts').querySelectorAll('[role=group] > *')].reduce((sum, part) => sum + Number(part.textContent.split(': ')[1].replace('−', '-')), 0)) === two(productsAt(5, state.place).sum)", "what is shown of the parts adds up")
    browser.run("$('parts').querySelectorAll('button')[2].click()")
    page.expect("$('parts').querySelectorAll('button')[2].getAttribute('aria-pressed') === 'true'", "another part")
    page.expect("$('explain').querySelector('b').textContent === 'Map ' + state.via", "the part that was chosen")
    point = "(id, x, y) => (b => $(id).dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: b.left + x * b.width, clientY: b.top + y * b.height})))($(id).getBoundingClientRect())"
    browser.run(f"({point})('pattern', 0.5, 0.5)")
    page.expect("(p => $('exact').textContent.endsWith(` = ${p.products[12].toFixed(3).replace('-', '−')}.`))(productsAt(5, state.place).windows.find(w => w.map === state.via))", "a pixel's numbers")
    browser.run("goTo({row: 0, column: 0})")
    page.expect("$('exact').textContent.includes('beyond the edge of the map: there it counts 0')", "padding is explained")
    browser.run(f"({point})('pixels', 0.1, 0.1)")
    page.expect("$('exact').textContent === 'Row 0, column 0 of the window: it is beyond the edge.'", "a pixel beyond the edge")
    page.for_everybody("deep")
    page.go("#photo=seven&model=digits&layer=features.2&filter=5&place=4,5")
    page.expect("$('words').textContent.startsWith('It is the largest of these: ')", "a pooling layer")
    page.for_everybody("pooling")
    page.go("#model=digits&layer=features.1&photo=cat")
    page.expect("document.querySelector('.doubt').textContent.includes('it is not sure of this photograph')", "a cat is no digit")
    page.expect("$('found').textContent.includes('`scripts/get_classifier.sh` in a clone of Lamina')", "where a model of photographs is to be had")
    browser.run("$('clock').open = true; $('steps').open = true")
    browser.wait("$('profile').children.length > 3")
    page.go("#photo=nothing&model=none&layer=%22&filter=-7&place=a,b")
    page.expect("state.example === 'cat' && $('status').textContent === 'The link asks for model “none”, which is not here.'", "a link that is wrong opens the page all the same")
    page.go("#filter=900")
    page.expect("$('status').textContent === 'The link asks for filter 900, which is not here.'", "a filter that is not there")
    # Dropped.
    browser.run("fetch('/rocket.jpg').then(r => r.blob()).then(b => { const d = new DataTransfer(); d.items.add(new File([b], 'r.jpg'));"
                "document.dispatchEvent(new DragEvent('drop', {dataTransfer: d, bubbles: true, cancelable: true})); })")
    browser.wait("state.example === null && state.photos[0].bitmap.width === 384 && $('status').textContent === '' && state.run > 1 && !$('found').hidden")
    filter, row, column = browser.run("[state.shown, state.place.row, state.place.column]")
    page.number_is(PAGE / "rocket.jpg", filter, row, column)
    # What no browser draws goes to the server, and so does what nobody can read, whose words are then shown.
    formats = subprocess.run([page.lamina, "doctor"], capture_output=True, text=True).stdout
    files = [("tests/golden/images/colour.ppm", "state.photos[0].bitmap.width === 40 && $('status').textContent === ''")]
    if "HEIC" in formats:
        files.append(("tests/golden/heic/turned.heic", "state.photos[0].bitmap.width !== 40 && $('status').textContent === ''"))
    files.append(("README.md", "$('status').textContent.includes('expected a photograph: PNG')"))
    for name, shown in files:
        page.choose_file(ROOT / name)
        browser.wait(shown)
    page.for_everybody("refused")
    cards = browser.run("$('cards').innerHTML")
    browser.run("take([new File([new Uint8Array((64 << 20) + 1)], 'big.jpg'), new File([], 'none.png')])")
    page.expect("$('status').innerText === 'big.jpg is larger than 64 MB\\nnone.png is empty'", "a line for each file")
    assert browser.run("$('cards').innerHTML") == cards, "the answer that was there stays"
    page.expect("performance.getEntriesByType('resource').every(r => r.name.startsWith(location.origin))", "asks this server alone")
    browser.call("Network.enable")
    browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    browser.run("$('examples').querySelector('[data-photo=coffee]').click()")
    browser.wait("$('status').textContent === 'The server does not answer.'")
    browser.run("update({push: true})")
    page.expect("$('status').textContent === 'The server does not answer.'", "in words, not as an error of a script")
    browser.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    browser.run("$('examples').querySelector('[data-photo=coffee]').click()")
    browser.wait("state.example === 'coffee' && $('status').textContent === ''")


def side_by_side(page):
    """Several photographs each with its answer; Back; arrow keys by rows."""
    browser = page.browser
    page.go("#model=digits&photo=seven")
    before = browser.run("location.hash")
    browser.run(DROP % "['cat.jpg', 'style.css', 'rocket.jpg']")
    browser.wait("state.photos.length === 2 && $('cards').children.length === 2 && document.querySelectorAll('#cards .bar').length === 6 && album[history.state.set] === state.photos")
    page.expect("$('status').className === 'error' && $('status').textContent.includes('style.css: expected a photograph')", "what is no photograph is named")
    page.expect("$('cards').textContent.includes('cat.jpg') && $('found').querySelector('h2').textContent.includes('2 photographs') && [...document.querySelectorAll('#cards .doubt')].map(e => e.textContent).join() === 'not sure,not sure'", "a card for each, with doubt in words")
    browser.run("$('cards').querySelectorAll('button')[1].click()")
    browser.wait("state.at === 1 && $('cards').querySelectorAll('button')[1].getAttribute('aria-pressed') === 'true' && state.info.photo.width === 384")
    page.for_everybody("side-by-side")
    browser.run("history.back()")
    browser.wait("state.at === 0 && state.photos.length === 2 && $('cards').querySelector('button').getAttribute('aria-pressed') === 'true'")
    browser.run("history.back()")
    browser.wait(f"location.hash === '{before}' && state.example === 'seven' && $('found').className === 'beside'")
    browser.run("$('layer').value = 'features.3'; $('layer').dispatchEvent(new Event('change'))")
    browser.wait("state.info.layer === 'features.3'")
    browser.run("$('maps').children[7].click()")
    browser.wait("state.shown === 7")
    columns = browser.run("getComputedStyle($('maps')).gridTemplateColumns.split(' ').length")
    browser.key("ArrowDown")
    page.expect(f"state.shown === {7 + columns} && document.activeElement === $('maps').children[{7 + columns}]", "down is a row")
    browser.key("ArrowUp")
    browser.key("ArrowUp")
    page.expect(f"state.shown === {7 - columns if columns <= 7 else 7}", "up is a row, and no further than the first")
    browser.run("history.back()")
    browser.wait("state.info.layer === 'features.3' && state.shown !== 7")
    browser.run("history.back()")
    browser.wait("state.info.layer !== 'features.3'")


def phones(page):
    """Thumbs find what they aim at."""
    browser = page.browser
    page.go("#photo=coffee")
    page.for_everybody("coffee")
    for width, height in ((320, 640), (360, 780), (412, 900), (844, 390), (640, 450)):
        browser.window(width, height, phone=True)
        page.go("#photo=coffee&model=digits")
        browser.run("$('layer').selectedOptions[0].text = 'a layer with a long name '.repeat(5)")
        page.expect("document.documentElement.scrollWidth <= innerWidth", f"{width}: the page is wider than the screen")
        page.expect("$('stage').getBoundingClientRect().height < 0.7 * innerHeight", f"{width} × {height}: room to scroll by a finger")
        browser.run("$('maps').scrollIntoView()")
        page.expect("$('pair').getBoundingClientRect().bottom < 0.6 * innerHeight", f"{width} × {height}: room for the maps")
        page.shoot(f"{width}-scrolled")
    for width, height in ((390, 844), (800, 1100)):
        browser.window(width, height, phone=True)
        browser.prefers(reduced_motion="reduce")
        page.go("#photo=coffee")
        small = browser.run("[...document.querySelectorAll('button, select, #pick')].map(e => [e, e.getBoundingClientRect()])"
                            ".filter(([e, b]) => b.height && (b.height < 44 || b.width < 44)).map(([e]) => e.outerHTML.slice(0, 80))")
        assert not small, f"too small for thumbs: {small}"
        x, y = browser.run("(b => [b.left + 0.3 * b.width, b.top + 0.6 * b.height])($('photo').getBoundingClientRect())")
        for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
            browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        filter, row, column = browser.run("[state.shown, state.place.row, state.place.column]")
        assert abs(row - 0.6 * 55) < 2 and abs(column - 0.3 * 55) < 2, f"a tap at 0.3, 0.6 shows row {row}, column {column}"
        page.number_is(PAGE / "coffee.jpg", filter, row, column)
        if width < 500:
            page.expect("$('found').querySelector('h2').getBoundingClientRect().bottom < innerHeight", "the class answer in view")
        browser.run("$('play').scrollIntoView({block: 'center'}); $('play').click()")
        page.expect("(([box, pair]) => box.top >= pair.bottom - 1 && box.bottom <= innerHeight + 1)(['explain', 'pair'].map(id => $(id).getBoundingClientRect()))",
                    "step by step, the box is in view")
        page.shoot(f"{width}-step-by-step")
        browser.run("stopLesson(); document.querySelectorAll('#maps button')[30].scrollIntoView({block: 'center'})")
        browser.run("document.querySelectorAll('#maps button')[30].click()")
        page.expect("$('about').textContent.startsWith('Filter 30: ') && $('little').offsetHeight > 20 && $('little').toDataURL() === $('pattern').toDataURL()",
                    "the filter that was tapped is beside its map")
        page.shoot(f"{width}-maps")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default=str(ROOT / "build/release/bin/lamina"))
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--axe", help="axe-core's axe.min.js")
    parser.add_argument("--out", help="a folder for screenshots")
    options = parser.parse_args()
    if options.chromium is None:
        sys.exit("check_page.py: there is no Chromium (apt install chromium)")
    folder = tempfile.mkdtemp()
    browser, server = None, contextlib.ExitStack()
    try:
        address = server.enter_context(served(options.lamina, PAGE))
        browser = Browser(options.chromium, folder)
        out = Path(options.out) if options.out else Path(folder)
        out.mkdir(exist_ok=True)
        axe = Path(options.axe).read_text() if options.axe else ""
        page = Page(browser, options.lamina, address, out, axe)
        browser.window(1400, 950)
        browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
        lesson(page)
        paint = browser.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        other_photographs(page, *numbers(page))
        side_by_side(page)
        took = []
        for _ in range(5):
            browser.run("delete document.body.dataset.ready; window.began = performance.now(); window.over = new Promise(done => new MutationObserver((_, o) => "
                        "{ if (document.body.dataset.ready) { o.disconnect(); done(performance.now()); } }).observe(document.body, {attributes: true}));"
                        "$('examples').querySelector('[data-photo=coffee]').click()")
            took.append(browser.run("window.over.then(t => t - window.began)"))
        phones(page)
        browser.window(1280, 900)
        detector(browser, options.lamina, out, axe)
        segmenter(browser, options.lamina, out, axe)
        print(f"first paint {paint:.0f} ms; photograph to maps {min(took):.0f} ms (of {len(took)}, the slowest {max(took):.0f});"
              f" all checks passed{'' if options.axe else ', without axe'}{'; screenshots in ' + str(out) if options.out else ''}")
    finally:
        if browser:
            browser.process.terminate()
            browser.process.wait()
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
