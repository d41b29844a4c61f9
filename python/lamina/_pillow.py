"""Photographs of kinds that this build does not read, where Pillow does: HEIC if pillow-heif is installed beside it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


def picture(photo: bytes, content: str, whole: bool, on_white: bool) -> str | tuple[int, int, bool, bytes]:
    """Width, height, whether pixels may be transparent, and the pixels, RGB, if it is wanted `whole`; or why there is
    none. `content` says what it is: "a HEIC image"."""
    kind = content.split()[1]
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
        if kind == "HEIC":
            from pillow_heif import register_heif_opener
            register_heif_opener()
    except ImportError:
        return f"this is {content}, which Lamina reads after pip install {'pillow-heif' if kind == 'HEIC' else 'pillow'}"
    try:
        # No other than this kind, as Pillow would run programs for some.
        found = Image.open(io.BytesIO(photo), formats=["HEIF" if kind == "HEIC" else kind])
        alpha = found.has_transparency_data
        if not whole:
            return *found.size, alpha, b""
        upright = seen(found) if on_white else ImageOps.exif_transpose(found)
        return *upright.size, alpha, upright.convert("RGB").tobytes()
    except (KeyError, UnidentifiedImageError):
        return f"this is {content}, damaged or of a sort that Pillow does not read"
    except Exception as error:
        return f"this is {content}, which Pillow cannot read: {error}"


def seen(found: Picture) -> Picture:
    """Turned as its EXIF data say, and laid on white where pixels may be transparent."""
    from PIL import Image, ImageOps
    upright = ImageOps.exif_transpose(found)
    if not upright.has_transparency_data:
        return upright
    front = upright.convert("RGBA")
    white = Image.new("RGB", front.size, "white")
    white.paste(front, mask=front)
    return white
