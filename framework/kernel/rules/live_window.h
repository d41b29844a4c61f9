#pragma once

#include <cstdint>
#include <vector>

#include "lamina/kernel/conv_geometry.h"
#include "lamina/tensor/tensor.h"

/// Taps of a window that see nothing but the padding, wherever it stands, need not be multiplied: of dilation 36 on
/// images of 28 x 28 only the middle of 3 x 3 taps ever meets a pixel, and the layer is a 1x1 convolution.
namespace lamina::detail {

/// The part of a window that computes the same: a rectangle of its taps, without those at its sides that are never
/// inside of the image.
struct LiveWindow {
  ConvGeometry geometry;                ///< of that part: fewer taps, less padding, the same images and outputs
  int first_row = 0, first_column = 0;  ///< which tap of the whole window is its first
};

/// The smallest such part whose outputs are as many by ConvGeometry's own formula, which has as much padding before the
/// image as behind it. Where outputs are as far apart as pixels and the padding keeps the image's size, nothing dead is
/// left at the sides.
LiveWindow live_window(const ConvGeometry& geometry);

/// The weights [OC, C, R, S] of `window` of those of the whole window.
Tensor live_weights(const LiveWindow& window, const Tensor& weight);

/// Neighbouring outputs along one side of an image, [begin, end), and the taps of their windows that are inside of it,
/// [first_tap, last_tap).
struct SeenTaps {
  int begin = 0, end = 0;
  int first_tap = 0, last_tap = 0;

  int outputs() const { return end - begin; }
  int taps() const { return last_tap - first_tap; }
};

/// The columns of the output, from left to right, in runs that see the same taps of a row.
std::vector<SeenTaps> seen_columns(const ConvGeometry& geometry);

/// The taps of a column from the first to the last that some of the rows [begin, end) of the output see.
SeenTaps seen_by_rows(const ConvGeometry& geometry, std::int64_t begin, std::int64_t end);

}  // namespace lamina::detail
