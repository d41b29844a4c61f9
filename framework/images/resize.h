#pragma once

#include <cstdint>

#include "lamina/images/image.h"

namespace lamina::detail {

/// A rectangle of pixels within a resized picture.
struct Region {
  std::int64_t left = 0;
  std::int64_t top = 0;
  int width = 0;
  int height = 0;
};

/// The pixels inside `region` of the picture resized to width x height, bilinear with antialias: bit for bit what
/// `Image.resize((width, height), Image.BILINEAR)` gives in Pillow 13. Earlier Pillows go over a picture that
/// `resizes_vertically_first` in the other order, and differ from it by a level here and there.
///
/// Only the region is computed, from only the rows and columns it depends on. Every output pixel depends on its own
/// taps alone, so its bits do not change, and a picture of 1 x 10000 that is to be resized to 256 x 2560000 costs no
/// more than its crop. Needs a consistent image with at least one pixel and a region, not empty, within the result.
///
/// Scratch memory: 3 bytes for each pixel of the region's columns and the image's rows that it depends on, or of the
/// region's rows and the image's columns; and a row where the image is not RGB, which is then converted as it is read.
/// `out`: RGB, rows `stride` bytes apart.
void resize_bilinear(const ImageView& image, std::int64_t width, std::int64_t height, const Region& region,
                     std::uint8_t* out, std::size_t stride);
Image resize_bilinear(const ImageView& image, std::int64_t width, std::int64_t height, const Region& region);

/// The order of the two passes, between which pixels are rounded to 8 bits: vertical first where the height shrinks
/// by more than twice the pixels that the width shrinks by. After torchvision's Resize that is a picture taller than
/// twice its width and wider than the new short side.
bool resizes_vertically_first(const ImageView& image, std::int64_t width, std::int64_t height);

}  // namespace lamina::detail
