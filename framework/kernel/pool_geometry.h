#pragma once

#include <cstdint>

namespace lamina {

/// All the numbers of one pooling, validated by the layer, passed to kernels by value. A plane is one channel of one
/// image: planes = N * C.
///   input  [planes, in_height, in_width]
///   output [planes, out_height, out_width]
struct PoolGeometry {
  std::int64_t planes = 1;
  int in_height = 0, in_width = 0;
  int out_height = 0, out_width = 0;
  int kernel_height = 1, kernel_width = 1;
  int stride_height = 1, stride_width = 1;
  int padding_height = 0, padding_width = 0;
  int dilation_height = 1, dilation_width = 1;
  bool count_padding = true;  ///< averages divide by the window's cells on the padding too

  constexpr std::int64_t in_pixels() const { return std::int64_t{in_height} * in_width; }
  constexpr std::int64_t out_pixels() const { return std::int64_t{out_height} * out_width; }

  friend bool operator==(const PoolGeometry&, const PoolGeometry&) = default;
};

}  // namespace lamina
