#!/usr/bin/env python3
"""Makes tests/golden/heic/: small HEIC pictures, and beside each as a PNG what libheif makes of it for Pillow. By hand:

    python3 -m venv venv && venv/bin/pip install pillow pillow-heif numpy
    venv/bin/python tests/golden/make_golden_heic.py

turned.heic lies on its side, with a note in the format's own words (irot) that libheif follows; alpha.heic.png is on
white.
"""

import pathlib

import numpy as np
import pillow_heif
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ROOT / "tests" / "golden" / "heic"


def main() -> None:
    pillow_heif.register_heif_opener()
    PICTURES.mkdir(exist_ok=True)
    eye = Image.open(ROOT / "docs" / "images" / "chelsea.png").convert("RGB").resize((96, 64), Image.BICUBIC)
    eye.save(PICTURES / "colour.heic", quality=80, chroma=444)
    eye.save(PICTURES / "halved.heic", quality=80)
    held = Image.Exif()
    held[0x0112] = 6
    eye.rotate(90, expand=True).save(PICTURES / "turned.heic", quality=80, chroma=444, exif=held.tobytes())
    alpha = np.linspace(0, 255, 96).astype(np.uint8)[None, :, None].repeat(64, 0)
    Image.fromarray(np.concatenate([np.asarray(eye), alpha], 2), "RGBA").save(
        PICTURES / "alpha.heic", quality=80, chroma=444)
    for path in sorted(PICTURES.glob("*.heic")):
        picture = Image.open(path)
        result = Image.new("RGB", picture.size, "white")
        result.paste(picture, mask=picture if picture.mode == "RGBA" else None)
        result.save(f"{path}.png")
        print(path.name, picture.size, picture.mode)


if __name__ == "__main__":
    main()
