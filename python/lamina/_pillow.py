"""Photographs of kinds that this build does not read, where Pillow does: HEIC if pillow-heif is installed beside it."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any


def opened(photo: str | os.PathLike[str] | bytes, kinds: Sequence[str]) -> Any:
    """An image of Pillow if the photograph is of one of these kinds, by Pillow's names; None where it cannot tell or is
    not installed."""
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        from pillow_heif import register_heif_opener
        register_heif_opener()
    except ImportError:
        pass
    Image.init()
    known = [kind for kind in kinds if kind in Image.OPEN]
    try:
        picture = Image.open(io.BytesIO(photo) if isinstance(photo, bytes) else photo, formats=known)
        picture.load()
    except Exception:  # whatever it says of the file, Lamina has said what it found
        return None
    return picture
