#!/usr/bin/env python3
"""What the page of `lamina serve` is made of, and what it is told: page_test.py LAMINA SOURCE. scripts/check_page.py drives it in a browser."""

import array
import json
import sys
import unittest
from pathlib import Path

from serving import Server

LAMINA, SOURCE = sys.argv[1], Path(sys.argv[2])
DIGIT = (SOURCE / "weights/digits/7.png").read_bytes()


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(LAMINA, SOURCE)
        cls.ask, cls.json = staticmethod(cls.server.ask), staticmethod(cls.server.json)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, "SIGTERM: expected exit code 0"

    def test_the_page_and_nothing_else_of_the_disk(self):
        for path, kind in (("/", "text/html"), ("/app.js", "text/javascript"), ("/draw.js", "text/javascript"), ("/window.js", "text/javascript"),
                           ("/keep.js", "text/javascript"), ("/found.js", "text/javascript"), ("/photos.js", "text/javascript"), ("/style.css", "text/css"), ("/icon.svg", "image/svg+xml"),
                           ("/cat.jpg", "image/jpeg"), ("/coffee.jpg", "image/jpeg"), ("/rocket.jpg", "image/jpeg"), ("/seven.png", "image/png")):
            status, content, headers = self.ask(path)
            self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, kind))
            self.assertEqual(content, (SOURCE / "apps/serve/page" / (path[1:] or "index.html")).read_bytes())
        page = SOURCE / "apps/serve/page"
        self.assertLessEqual(sum(file.stat().st_size for file in page.iterdir()), 128 << 10)
        for path in ("/../CMakeLists.txt", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/app.js/../../README.md"):
            self.assertEqual(self.ask(path)[0], 404, path)

    def test_one_window(self):
        """What the page multiplies and adds up is what the network did."""
        maps = self.ask("/features?model=alexnet-conv1", DIGIT, {"Accept": "application/octet-stream"})[1]
        status, content, headers = self.ask("/filters?model=alexnet-conv1")
        self.assertEqual(len(content), 96 * 3 * 11 * 11 * 4)
        filters, bias = array.array("f", content), json.loads(headers["Lamina-Description"])["bias"]
        status, content, headers = self.ask("/input?model=alexnet-conv1", DIGIT)
        seen, about = array.array("f", content), json.loads(headers["Lamina-Description"])
        self.assertEqual((about["shape"], len(seen), about["divisor"], len(about["mean"])), ([3, 224, 224], 3 * 224 * 224, 255, 3))
        layer = next(l for m in self.json("/models")[1] if m["name"] == "alexnet-conv1" for l in m["layers"] if l["name"] == "features.1")
        self.assertEqual(layer["field"], {"size": [11, 11], "stride": [4, 4], "start": [-2, -2]})
        maps = array.array("f", maps)
        for number, row, column in ((0, 0, 0), (54, 20, 30), (93, 54, 54)):
            total = bias[number]
            for c in range(3):
                for y in range(11):
                    for x in range(11):
                        at = (row * 4 - 2 + y, column * 4 - 2 + x)
                        if 0 <= min(at) and max(at) < 224:
                            total += seen[(c * 224 + at[0]) * 224 + at[1]] * filters[((number * 3 + c) * 11 + y) * 11 + x]
            self.assertAlmostEqual(max(0, total), maps[(number * 55 + row) * 55 + column], places=4)

    def test_one_number_of_a_deeper_layer(self):
        """What is before a layer, and its weights, add up to its number; a pooling's is the largest of its window."""
        layers = {l["name"]: l for m in self.json("/models")[1] if m["name"] == "digits" for l in m["layers"]}
        pooled, conv = layers["features.2"]["made"], layers["features.3"]["made"]
        self.assertEqual((pooled["from"], pooled["how"], pooled["size"], pooled["stride"]), ("features.1", "max", [3, 3], [2, 2]))
        self.assertEqual((conv["from"], conv["how"], conv["size"], conv["start"]), ("features.2", "sum", [5, 5], [-2, -2]))
        maps = {name: array.array("f", self.ask(f"/features?model=digits&layer={name}", DIGIT, {"Accept": "application/octet-stream"})[1])
                for name in ("features.1", "features.2", "features.3")}
        (_, high, wide), (count, h, w) = layers["features.1"]["shape"], layers["features.2"]["shape"]
        self.assertEqual(max(maps["features.1"][(5 * high + 8 + y) * wide + 10 + x] for y in range(3) for x in range(3)), maps["features.2"][(5 * h + 4) * w + 5])
        status, content, headers = self.ask("/filters?model=digits&layer=features.3&filter=7")
        about, weights = json.loads(headers["Lamina-Description"]), array.array("f", content)
        self.assertEqual(about["shape"], [1, count, 5, 5])
        total = about["bias"][0] + sum(maps["features.2"][(c * h + 4 - 2 + y) * w + 5 - 2 + x] * weights[(c * 5 + y) * 5 + x]
                                       for c in range(count) for y in range(5) for x in range(5))
        self.assertAlmostEqual(total, maps["features.3"][(7 * h + 4) * w + 5], places=4)
        for query, expected in (("features.3&filter=32", 400), ("features.3&filter=x", 400), ("features.3", 404), ("features.2&filter=0", 404)):
            self.assertEqual(self.ask(f"/filters?model=digits&layer={query}")[0], expected, query)

    def test_receptive_fields(self):
        layers = {l["name"]: l.get("field") for l in next(m for m in self.json("/models")[1] if m["name"] == "digits")["layers"]}
        self.assertEqual(layers["features.2"], {"size": [7, 7], "stride": [2, 2], "start": [-2, -2]})
        self.assertEqual(layers["features.3"], {"size": [15, 15], "stride": [2, 2], "start": [-6, -6]})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
