#!/usr/bin/env python3
"""Makes tests/golden/images/ and tests/golden/images.txt: small pictures of every kind Lamina reads, and hashes of
what torchvision makes of them. Run by hand, from anywhere, after a change of the list below:

    python3 -m venv venv && venv/bin/pip install pillow numpy torch torchvision
    venv/bin/python tests/golden/make_golden_images.py

Pillow 13 or later: earlier ones resize tall pictures in another order. Deterministic: the pictures are cut from
docs/images. Last run with the versions that images.txt names.

Each line of images.txt is

    picture resize crop decoded cropped tensor

with the picture's path from the root of the repository and 64-bit FNV-1a hashes of the bytes of: the decoded RGB
picture; Resize(resize) and CenterCrop(crop) of it, [crop, crop, 3]; after ToTensor and Normalize, f32 [3, crop, crop].
Each line of on_white.txt is a picture with transparent pixels and the hash of the RGB picture that Pillow makes of it
when it pastes it on white with itself as the mask.

JPEG decoders differ: builds without libjpeg-turbo pass over the lines of .jpg, and NAME.jpg stands beside NAME.jpg.png,
the pixels Pillow decodes, for them to come close to. Builds without libwebp pass over the lines of .webp.
"""

import io
import pathlib
import struct
import zlib

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image
from torchvision import transforms

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
PICTURES = GOLDEN / "images"


def fnv1a(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def to_rgb(picture: Image.Image) -> Image.Image:
    """convert("RGB"), except that 16-bit grey keeps its high byte: Pillow turns all levels from 255 up to white."""
    if picture.mode.startswith("I"):
        picture = Image.fromarray((np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8))
    return picture.convert("RGB")


def photo(name: str, box: tuple[int, int, int, int], size: tuple[int, int]) -> Image.Image:
    return Image.open(ROOT / "docs" / "images" / name).convert("RGB").resize(size, Image.BICUBIC, box)


def png(array: np.ndarray, interlaced: bool = False, four_bits: bool = False) -> bytes:
    """A PNG of uint8 or uint16 [H, W, C]: Pillow writes neither 16-bit colour nor Adam7 nor 4-bit grey."""
    height, width, channels = array.shape
    depth = 4 if four_bits else 8 * array.itemsize
    big = array.astype(">u2") if array.dtype == np.uint16 else array
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = b""
    for x, y, dx, dy in passes:
        part = big[y::dy, x::dx]
        if part.shape[1]:
            if four_bits:
                part = part[:, 0::2] << 4 | part[:, 1::2]
            rows += b"".join(b"\0" + row.tobytes() for row in part)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    data = chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


def bmp16(array: np.ndarray, bits: tuple[int, int, int]) -> bytes:
    """A BMP of 16 bits per pixel from uint8 [H, W, 3], its colour masks behind the header."""
    red, green, blue = (array[..., c].astype(np.uint32) >> (8 - bits[c]) for c in range(3))
    packed = (red << (bits[1] + bits[2]) | green << bits[2] | blue).astype("<u2")
    packed = np.pad(packed, ((0, 0), (0, packed.shape[1] % 2)))[::-1]
    masks = ((1 << bits[0]) - 1 << bits[1] + bits[2], (1 << bits[1]) - 1 << bits[2], (1 << bits[2]) - 1)
    height, width = array.shape[:2]
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 16, 3, packed.nbytes, 2835, 2835, 0, 0)
    start = struct.pack("<2sIHHI", b"BM", 66 + packed.nbytes, 0, 0, 66)
    return start + header + struct.pack("<3I", *masks) + packed.tobytes()


def write_pictures() -> list[str]:
    rng = np.random.default_rng(1)
    coffee = photo("coffee.png", (100, 50, 500, 360), (97, 75))  # resized to 331 x 256: margin 53.5, rounded up
    face = photo("astronaut.png", (150, 0, 310, 256), (55, 88))
    square = photo("chelsea.png", (60, 20, 300, 260), (64, 64))
    eye = photo("chelsea.png", (120, 90, 240, 180), (40, 30))
    names = []

    def save(name: str, content, **options) -> None:
        if isinstance(content, bytes):
            (PICTURES / name).write_bytes(content)
        else:
            content.save(PICTURES / name, **options)
        names.append(name)

    pixels = np.asarray(eye)
    alpha = rng.integers(0, 256, (30, 40, 1), dtype=np.uint8)
    wide = (pixels.astype(np.uint16) << 8) + rng.integers(0, 256, pixels.shape, dtype=np.uint16)
    palette = eye.quantize(64)
    save("landscape.png", coffee)
    save("landscape99.png", photo("coffee.png", (100, 50, 500, 360), (99, 75)))  # 337 x 256: margin 56.5, rounded down
    save("portrait.png", face)
    save("square.png", square)
    save("tiny.png", photo("coffee.png", (100, 50, 500, 360), (7, 5)))
    save("one.png", Image.new("RGB", (1, 1), (200, 100, 50)))
    save("strip.png", photo("coffee.png", (0, 100, 600, 102), (600, 2)))
    save("column.png", photo("coffee.png", (100, 0, 103, 400), (3, 400)))
    save("tall.png", photo("coffee.png", (100, 0, 233, 400), (40, 120)))  # Pillow 13 shrinks it vertically first
    save("same.png", square.resize((256, 256), Image.BILINEAR), optimize=True)  # nothing to resize
    save("grey.png", eye.convert("L"))
    save("grey_alpha.png", Image.fromarray(np.concatenate([pixels[..., :1], alpha], 2), "LA"))
    save("rgba.png", Image.fromarray(np.concatenate([pixels, alpha], 2), "RGBA"))
    save("colour_key.png", eye, transparency=tuple(int(v) for v in pixels[3, 4]))
    save("palette.png", palette)
    save("palette_alpha.png", palette, transparency=bytes(range(0, 256, 4)))
    save("palette4.png", eye.quantize(13), bits=4)
    save("palette2.png", eye.quantize(4), bits=2)
    save("grey4.png", png(pixels[..., :1] >> 4, four_bits=True))
    save("bilevel.png", eye.convert("1"))
    save("grey16.png", png(wide[..., :1]))
    save("grey_alpha16.png", png(np.concatenate([wide[..., :1], wide[..., 1:2]], 2)))
    save("rgb16.png", png(wide))
    save("rgba16.png", png(np.concatenate([wide, wide[..., :1]], 2)))
    save("interlaced.png", png(pixels[:, :37], interlaced=True))
    save("colour.bmp", eye.crop((0, 0, 37, 30)))
    save("alpha.bmp", Image.fromarray(np.concatenate([pixels, alpha], 2), "RGBA"))
    save("palette.bmp", eye.crop((0, 0, 37, 30)).quantize(64))
    save("grey.bmp", eye.convert("L"))
    save("bilevel.bmp", eye.convert("1"))
    save("rgb555.bmp", bmp16(pixels[:, :37], (5, 5, 5)))
    save("rgb565.bmp", bmp16(pixels[:, :37], (5, 6, 5)))
    save("colour.tga", eye)
    save("top_down.tga", eye, orientation=1)
    save("alpha_rle.tga", Image.fromarray(np.concatenate([pixels, alpha], 2), "RGBA"), rle=True)
    save("grey_rle.tga", eye.convert("L").point(lambda v: v & 0xE0), rle=True)
    save("grey_alpha.tga", Image.fromarray(np.concatenate([pixels[..., :1], alpha], 2), "LA"))
    save("palette.tga", palette)
    save("colour.ppm", eye)
    save("grey.pgm", eye.convert("L"))
    save("levels100.ppm", b"P6\n# levels 0 to 100\n40 30 100\n" + (pixels // 3).tobytes())
    save("rgb16.ppm", b"P6\n40 30\n65535\n" + wide.astype(">u2").tobytes())
    save("grey16.pgm", b"P5\n40 30\n65535\n" + wide[..., 0].astype(">u2").tobytes())

    save("lossy.webp", coffee, quality=85)
    save("lossless.webp", square, lossless=True)
    save("alpha.webp", Image.fromarray(np.concatenate([pixels, alpha], 2), "RGBA"), quality=80)
    save("alpha_lossless.webp", Image.fromarray(np.concatenate([pixels, alpha], 2), "RGBA"), lossless=True, exact=True)

    later = eye.point(lambda v: 255 - v).quantize(32)
    save("palette.gif", palette)
    save("animated.gif", palette, save_all=True, append_images=[later], duration=100)  # the first frame is read
    save("lzw.tif", eye, compression="tiff_lzw")
    save("turned.tif", eye, compression="tiff_adobe_deflate", tiffinfo={274: 6})
    save("palette.tif", palette)
    save("grey.tif", eye.convert("L"), compression="packbits")
    save("bilevel.tif", eye.convert("1"), compression="group4")

    def save_jpeg(name: str, picture: Image.Image, **options) -> None:
        encoded = io.BytesIO()
        picture.save(encoded, "JPEG", **options)
        (PICTURES / name).write_bytes(encoded.getvalue())
        Image.open(PICTURES / name).convert("RGB").save(PICTURES / f"{name}.png")
        names.append(name)

    save_jpeg("colour.jpg", square, quality=90, subsampling=0)
    save_jpeg("subsampled.jpg", coffee, quality=85)
    save_jpeg("progressive.jpg", square, quality=85, progressive=True)
    save_jpeg("grey.jpg", square.convert("L"), quality=90)
    save_jpeg("cmyk.jpg", eye.convert("CMYK"), quality=95)
    save_jpeg("halved.jpg", coffee, quality=80, subsampling=1)
    save_jpeg("restarts.jpg", coffee, quality=75, restart_marker_blocks=3)
    return names


def on_white(picture: Image.Image) -> Image.Image:
    picture = picture.convert("RGBA")
    result = Image.new("RGB", picture.size, "white")
    result.paste(picture, mask=picture)
    return result


def pipeline(picture: Image.Image, resize: int, crop: int) -> tuple[Image.Image, torch.Tensor]:
    cropped = transforms.Compose([transforms.Resize(resize), transforms.CenterCrop(crop)])(picture)
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    return cropped, normalize(transforms.ToTensor()(cropped))


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    names = write_pictures()
    paths = [f"tests/golden/images/{name}" for name in names]
    cases = [(path, 256, 224) for path in paths]
    cases += [(f"docs/images/{name}.png", 256, 224) for name in ("astronaut", "chelsea", "coffee")]
    cases.append(("docs/images/rocket.jpg", 256, 224))
    cases += [(f"tests/golden/images/{name}.jpg.png", 256, 224) for name in ("colour", "subsampled")]
    # Other sizes: shrinking, an odd crop, the crop as large as the picture, larger than one side and than both.
    others = [("landscape", 32, 27), ("landscape", 299, 299), ("landscape", 40, 50), ("portrait", 33, 64),
              ("square", 63, 62), ("tall", 24, 20), ("tall", 17, 61), ("portrait", 20, 101), ("one", 1, 1),
              ("strip", 8, 6)]
    for name, resize, crop in others:
        cases.append((f"tests/golden/images/{name}.png", resize, crop))

    versions = f"Pillow {PIL.__version__}, torch {torch.__version__}, torchvision {torchvision.__version__}"
    lines = [f"# Made by make_golden_images.py with {versions}.", "# picture resize crop decoded cropped tensor"]
    for path, resize, crop in cases:
        picture = to_rgb(Image.open(ROOT / path))
        cropped, tensor = pipeline(picture, resize, crop)
        contents = (picture.tobytes(), cropped.tobytes(), tensor.numpy().astype("<f4").tobytes())
        lines.append(" ".join([path, str(resize), str(crop), *map(fnv1a, contents)]))
    (GOLDEN / "images.txt").write_text("\n".join(lines) + "\n")

    lines = [f"# Made by make_golden_images.py with {versions}.", "# picture pasted on white"]
    for name in ("grey_alpha.png", "rgba.png", "colour_key.png", "palette_alpha.png", "grey_alpha16.png", "rgba16.png",
                 "alpha.webp", "alpha_lossless.webp", "landscape.png", "palette.png", "colour.jpg.png"):
        path = f"tests/golden/images/{name}"
        lines.append(f"{path} {fnv1a(on_white(Image.open(ROOT / path)).tobytes())}")
    (GOLDEN / "on_white.txt").write_text("\n".join(lines) + "\n")

    # Two crops in full, to look at when a hash fails.
    for name in ("landscape", "tiny"):
        cropped, _ = pipeline(to_rgb(Image.open(PICTURES / f"{name}.png")), 256, 224)
        cropped.save(PICTURES / f"{name}.crop.png", optimize=True)


if __name__ == "__main__":
    main()
