"""Photographs of kinds that this build does not read, where Pillow does: HEIC if pillow-heif is installed beside it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


def picture(photo: bytes, kind: str, whole: bool, on_white: bool) -> str | tuple[int, int, bool, bytes]:
    """Width, height, whether pixels may be transparent, and the pixels, RGB, if it is wanted `whole`; or why there is
    none. `kind` is what Pillow calls the format."""
    content = {"HEIF": "a HEIC image", "AVIF": "an AVIF image", "TIFF": "a TIFF image"}[kind]
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
        if kind == "HEIF":
            from pillow_heif import register_heif_opener
            register_heif_opener()
    except ImportError:
        return f"this is {content}, which Lamina reads after pip install {'pillow-heif' if kind == 'HEIF' else 'pillow'}"
    try:
        # No other than this kind, as Pillow would run programs for some.
        found = Image.open(io.BytesIO(photo), formats=[kind])
        alpha = found.has_transparency_data
        if not whole:
            return *found.size, alpha, b""
        upright = ImageOps.exif_transpose(found)
        return *upright.size, alpha, rgb(upright, on_white).tobytes()
    except (KeyError, UnidentifiedImageError):
        return f"this is {content}, damaged or of a sort that Pillow does not read"
    except Exception as error:
        return f"this is {content}, which Pillow cannot read: {error}"


def as_read(found: Picture, upright: bool) -> Picture:
    """The pixels of an image of Pillow, RGB: turned as its EXIF data say and laid on white if they are wanted `upright`."""
    from PIL import ImageOps
    return rgb(ImageOps.exif_transpose(found) if upright else found, upright)


def rgb(found: Picture, on_white: bool) -> Picture:
    """Of 16 bits the upper eight, as files of them are read: Pillow's convert("RGB") makes white of all above 255."""
    from PIL import Image
    if found.mode in ("I", "F"):
        raise ValueError(f"expected an image of 8 or 16 bits, got mode {found.mode}, which does not say what is white; "
                         'convert it, e.g. to "I;16" or, from 0 to 255, to "L"')
    if found.mode.startswith("I;16"):
        levels = np.asarray(found)
        grey = (levels >> 8).astype(np.uint8)
        if on_white and isinstance(clear := found.info.get("transparency"), int):
            grey[levels == clear] = 255
        return Image.fromarray(grey).convert("RGB")
    if not (on_white and found.has_transparency_data):
        return found.convert("RGB")
    front = found.convert("RGBA")
    white = Image.new("RGB", front.size, "white")
    white.paste(front, mask=front)
    return white
