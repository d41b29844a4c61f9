#!/usr/bin/env python3
"""Rendered lines of text as a recogniser of PP-OCR reads them: f32 [N, 3, 48, 320], for read_lines.cpp.

    python3 -m pip download --no-deps rapidocr==3.10.0 && unzip rapidocr-*.whl 'rapidocr/models/*'
    scripts/quantize/read_lines.py OUT             # 64 lines to calibrate with, 200 to read; DejaVu or Liberation fonts
    c++ -std=c++20 -O2 -Iinclude scripts/quantize/read_lines.cpp build/cpu/lib/liblamina.a ... -o read_lines
    ./read_lines rapidocr/models/PP-OCRv6_rec_small.onnx OUT
"""

import glob
import os
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WORDS = ("the quick brown fox jumps over lazy dog invoice total amount due date street house number Lamina network image layer "
         "price order paid cash card hello world open close north south river bridge museum ticket train").split()


def line(fonts, numbers):
    words = [numbers.choice(WORDS) if numbers.random() < .75 else str(numbers.integers(1, 99999)) for _ in range(numbers.integers(2, 5))]
    text = " ".join(words).title() if numbers.random() < .3 else " ".join(words)
    font = ImageFont.truetype(fonts[numbers.integers(len(fonts))], int(numbers.integers(26, 36)))
    _, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (right + 16, 48), tuple(numbers.integers(180, 256, 3).tolist()))
    ImageDraw.Draw(image).text((8, 24 - (bottom + top) // 2), text, font=font, fill=tuple(numbers.integers(0, 90, 3).tolist()))
    pixels = np.asarray(image.resize((min(320, image.width), 48)), np.float32)[..., ::-1]
    pixels = pixels + numbers.normal(0, numbers.uniform(0, 12), pixels.shape)
    result = np.zeros((3, 48, 320), np.float32)
    result[:, :, :pixels.shape[1]] = np.clip(pixels, 0, 255).transpose(2, 0, 1) / 127.5 - 1
    return result


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    found = sorted(glob.glob("/usr/share/fonts/truetype/**/*.ttf", recursive=True))
    fonts = [path for path in found if os.path.basename(path).startswith(("DejaVuSans", "DejaVuSerif", "LiberationSans-Regular"))]
    numbers = np.random.default_rng(3)
    lines = np.stack([line(fonts, numbers) for _ in range(264)])
    os.makedirs(sys.argv[1], exist_ok=True)
    lines[:64].tofile(os.path.join(sys.argv[1], "calibration.f32"))
    lines[64:].tofile(os.path.join(sys.argv[1], "lines.f32"))


if __name__ == "__main__":
    main()
