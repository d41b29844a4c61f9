#pragma once

#include <cstddef>
#include <span>

#include "lamina/images/image.h"

/// How a camera was held: all that is read of EXIF.
namespace lamina::detail {

/// The orientation 1 to 8 that a JPEG, PNG or WebP notes in its EXIF data, 1 (as stored) where it notes none or the
/// note is damaged.
int exif_orientation(std::span<const std::byte> bytes);

/// The picture turned and mirrored as orientation 1 to 8 says, as Pillow's ImageOps.exif_transpose does it.
Image oriented(Image image, int orientation);

}  // namespace lamina::detail
