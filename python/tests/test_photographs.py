"""Which way up photographs are seen, and on what: as the command sees them."""

import lamina
import numpy as np
import pytest


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_photograph_is_upright_wherever_one_goes(digits, photos, tmp_path, suffix):
    image = pytest.importorskip("PIL.Image")
    exif = image.Exif()
    exif[0x112] = 6  # lies on its side
    whole, path = image.open(photos / "7.png").convert("RGB").resize((40, 32)), tmp_path / f"turned.{suffix}"
    whole.save(path, exif=exif)
    stored = np.asarray(image.open(path))
    turned = np.ascontiguousarray(np.rot90(stored, -1))
    for photo in (path, path.read_bytes(), image.open(path)):
        assert np.array_equal(lamina.read_image(photo), turned)
        assert np.array_equal(lamina.read_image(photo, upright=False), stored)
        for see in (lamina.preprocess, lamina.resize_and_crop):
            assert np.array_equal(see(photo, digits.preprocess), see(turned, digits.preprocess))
            assert np.array_equal(see(photo, digits.preprocess, upright=False), see(stored, digits.preprocess))
        assert digits.classify(photo) == digits.classify(turned) != digits.classify(photo, upright=False)


@pytest.mark.parametrize("suffix", ["png", "webp", "gif"])
def test_what_is_transparent_is_seen_on_white(digits, tmp_path, suffix):
    """As the command sees it; as stored, hidden colours show."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((32, 40, 4), np.uint8)
    pixels[8:, :, 3] = 255
    path = tmp_path / f"seen.{suffix}"
    image.fromarray(pixels).save(path, **({"lossless": True, "exact": True} if suffix == "webp" else {}))
    white = np.zeros((32, 40, 3), np.uint8)
    white[:8] = 255
    for photo in (path, path.read_bytes(), image.open(path)):
        assert np.array_equal(lamina.read_image(photo), white)
        assert digits.classify(photo) == digits.classify(white)
    assert not lamina.read_image(path, upright=False).any()
