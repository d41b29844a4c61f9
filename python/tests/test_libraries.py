"""PyTorch's tensors of the host (test_cuda.py has those of a GPU), photographs of Pillow and photographs that it reads."""

import importlib.util
import subprocess
import sys

import lamina
import numpy as np
import pytest


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_tensors_of_the_host(torch, plan, x):
    expected = plan(x)
    assert np.array_equal(plan(torch.from_numpy(x)), expected)
    out = torch.empty(2, 10)
    assert plan(torch.from_numpy(x), out=out) is out and np.array_equal(out.numpy(), expected)
    assert torch.equal(torch.from_dlpack(plan(x)), out)


def test_other_types_and_channels_last(torch, digits, x):
    expected = torch.from_numpy(digits.compile(device="cpu", batch=2)(x))
    images = torch.from_numpy(x).bfloat16().to(memory_format=torch.channels_last).permute(0, 2, 3, 1)
    plan = digits.compile(device="cpu", batch=2, input_format="bf16,nhwc", output_format="f16")
    assert (plan.input_shapes, plan.input_dtypes, plan.output_dtypes) == (((2, 32, 32, 3),), ("bf16",), ("f16",))
    scores = torch.from_numpy(plan(images))
    assert scores.dtype == torch.float16 and torch.allclose(scores.float(), expected, atol=0.05, rtol=0.05)
    out = torch.empty(2, 10, dtype=torch.bfloat16)
    plan = digits.compile(device="cpu", batch=2, input_format="bf16,nhwc", output_format="bf16")
    assert plan(images, out=out) is out and torch.allclose(out.float(), expected, atol=0.05, rtol=0.05)
    with pytest.raises(lamina.Error, match=r"expected bf16 \[2, 32, 32, 3\] as compiled, got bf16 \[2, 3, 32, 32\]"):
        plan(torch.from_numpy(x).bfloat16())


def test_nothing_is_cast_or_copied(torch, plan, x):
    tensor = torch.from_numpy(x)
    with pytest.raises(lamina.Error, match="got f64"):
        plan(tensor.double())
    with pytest.raises(lamina.Error, match="got bf16"):
        plan(tensor.bfloat16())
    with pytest.raises(lamina.Error, match="not contiguous"):
        plan(tensor.to(memory_format=torch.channels_last))
    with pytest.raises(lamina.Error, match="input: cannot be read: .*gradient"):
        plan(tensor.requires_grad_())


def test_a_model_takes_what_a_plan_refuses(torch, digits, x):
    tensor = torch.from_numpy(x)
    expected = digits(x, device="cpu")
    for other in (tensor.clone().requires_grad_(), tensor.double(), tensor.permute(0, 2, 3, 1), tensor.to(memory_format=torch.channels_last),
                  torch.stack([tensor, tensor], -1)[..., 0]):
        assert np.array_equal(digits(other, device="cpu"), expected)
    assert np.array_equal(digits(tensor.bfloat16(), device="cpu"), digits(tensor.bfloat16().float(), device="cpu"))


def test_what_this_build_does_not_read_pillow_does(photos, tmp_path):
    """HEIC by pillow-heif, AVIF and TIFF by Pillow, in builds without libheif and libtiff; the same pictures in those with."""
    image, features = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.features")
    seven = image.open(photos / "7.png").convert("RGB")
    seven.save(tmp_path / "7.tiff")
    assert np.array_equal(lamina.read_image(tmp_path / "7.tiff"), np.asarray(seven))
    assert np.array_equal(lamina.read_image((tmp_path / "7.tiff").read_bytes()), np.asarray(seven))
    (tmp_path / "half.tiff").write_bytes((tmp_path / "7.tiff").read_bytes()[:100])
    with pytest.raises(lamina.Error, match="half.tiff: .*TIFF"):
        lamina.read_image(tmp_path / "half.tiff")
    (tmp_path / "drawing.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")  # which it would run
    with pytest.raises(lamina.Error, match="drawing.eps"):
        lamina.read_image(tmp_path / "drawing.eps")
    if features.check("avif"):
        seven.save(tmp_path / "7.avif", quality=100)
        assert np.abs(lamina.read_image(tmp_path / "7.avif").astype(int) - np.asarray(seven)).max() <= 8
    pytest.importorskip("pillow_heif")
    for name in ("colour", "turned"):
        heic = photos.parents[1] / f"tests/golden/heic/{name}.heic"
        expected = np.asarray(image.open(heic.with_suffix(".heic.png")).convert("RGB"), np.int32)
        found = lamina.read_image(heic).astype(np.int32)
        assert found.shape == expected.shape and np.abs(found - expected).max() <= 2


def test_a_wheel_reads_by_pillow(photos):
    """The test above of what every wheel is, which has neither library, in builds that have them; and without Pillow."""
    if importlib.util.find_spec("PIL"):
        code = f"import lamina._core, pytest; lamina._core.read_by_pillow(); exit(pytest.main([{__file__!r}, '-k', 'what_this_build']))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    heic = photos.parents[1] / "tests/golden/heic/colour.heic"
    for start, package in ((heic.read_bytes(), "pillow-heif"), (b"\0\0\0\x20ftypavif", "pillow"), (b"II*\0", "pillow")):
        code = ("import sys; sys.modules['PIL'] = None\nimport lamina._core\nlamina._core.read_by_pillow()\n"
                f"try: lamina.read_image({start[:40]!r})\nexcept lamina.Error as error: print(error)")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.endswith(f"which Lamina reads after pip install {package}\n"), done


def test_pillow(digits, photos, tmp_path):
    image = pytest.importorskip("PIL.Image")
    photo = photos.parents[1] / "docs/images/chelsea.png"
    picture = image.open(photo)
    assert np.array_equal(lamina.read_image(photo), np.asarray(picture.convert("RGB")))
    # An image of Pillow's is a photograph wherever one goes, in whichever mode.
    assert np.array_equal(lamina.read_image(photo), lamina.read_image(picture))
    settings = lamina.torchvision_imagenet()
    assert np.array_equal(lamina.preprocess(photo, settings), lamina.preprocess(picture, settings))
    assert np.array_equal(lamina.read_image(picture.convert("L"))[..., 0], np.asarray(picture.convert("L")))
    seven = image.open(photos / "7.png")
    assert digits.classify(seven) == digits.classify(photos / "7.png")
    assert [row.classes for row in digits.classify([seven, photos / "7.png"])] == [digits.classify(seven)] * 2
    whole = photo.read_bytes()
    (tmp_path / "half.png").write_bytes(whole[:len(whole) // 2])
    with pytest.raises(lamina.Error, match="photo: cannot be read: OSError"):
        lamina.read_image(image.open(tmp_path / "half.png"))
