"""Python's lines in README.md, python.md and coming_from.md run as they are written, page by page, beside the files that they name;
and what a type checker is told of an answer is what it is."""

import re
from pathlib import Path

import lamina
import numpy as np
import onnx_writer as onnx
import pytest
from conftest import ROOT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A network of 1,000 classes, as two files; a photograph, and a folder of some; weights of a first layer."""
    values = np.random.default_rng(0)
    nodes = [onnx.node("Conv", ["x", "w"], "c", kernel_shape=[3, 3], strides=[8, 8]), onnx.node("GlobalAveragePool", ["c"], "p"),
             onnx.node("Flatten", ["p"], "f", axis=1), onnx.node("MatMul", ["f", "v"], "y")]
    constants = {"w": values.standard_normal((8, 3, 3, 3), np.float32), "v": values.standard_normal((8, 1000), np.float32)}
    for name in ("resnet50.onnx", "model.onnx"):
        onnx.write(tmp_path / name, nodes, [("x", "float32", ["N", 3, 224, 224])], [("y", "float32", ["N", 1000])], constants)
    (tmp_path / "photos").mkdir()
    for place in ("cat.jpg", "photos/1.png"):
        (tmp_path / place).write_bytes((ROOT / "docs/images/chelsea.png").read_bytes())
    (tmp_path / "weights").symlink_to(ROOT / "weights")
    np.savez(tmp_path / "weights.npz", **{"features.0.weight": np.zeros((96, 3, 11, 11), np.float32),
                                          "features.0.bias": np.zeros(96, np.float32)})
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/coming_from.md"])
def test_the_lines_of_a_page_run(page, folder):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    there: dict = {}
    assert blocks
    for block in blocks:
        if '"cuda"' in block and not lamina.cuda_device_count():
            continue
        try:
            exec(compile(block, page, "exec"), there)
        except ModuleNotFoundError as missing:  # PyTorch, OpenCV
            assert missing.name in ("cv2", "onnx", "onnxscript", "torch"), missing


PROGRAM = """
from pathlib import Path
import numpy as np
import lamina
model = lamina.load("net.onnx")
pixels = np.zeros((2, 2, 3), np.uint8)
reveal_type(model.classify(b""))
reveal_type(model.classify("cat.jpg"))
reveal_type(model.classify(pixels))
reveal_type(model.classify(["cat.jpg", Path("dog.jpg")]))
detector = lamina.Detector(model)
reveal_type(detector(b""))
reveal_type(detector("photos"))
reveal_type(detector([b""]))
reveal_type(detector(b"")[0].box)
"""
SEEN = [r"list\[tuple\[str, float\]\]", r"list\[Any\]", r"list\[Any\]", r"list\[.*lamina._photos.Classified\]+", r"lamina._detect.Detections", "Any",
        r"list\[.*lamina._detect.Detected\]+", r"numpy.ndarray\[.*"]


def test_hints(tmp_path):
    api = pytest.importorskip("mypy.api")
    if not Path(lamina.__file__).with_name("_core.pyi").exists():
        pytest.skip("stubs are made with a wheel")
    (tmp_path / "program.py").write_text(PROGRAM)
    said, _, _ = api.run(["--no-incremental", "--cache-dir", str(tmp_path), str(tmp_path / "program.py")])
    shown = [line for line in said.splitlines() if "Revealed type" in line]
    assert len(shown) == len(SEEN) and "error" not in said, said
    for line, expected in zip(shown, SEEN):
        assert re.search(f'"{expected}"', line.replace("builtins.", "").replace("typing.", "")), said
