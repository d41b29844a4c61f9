#pragma once

#include <cstdint>

#include "lamina/tensor/shape.h"

namespace lamina {

/// The extents of an activation that kernels work on, whichever the layout: [images, channels, pixels].
struct Activation {
  std::int64_t images = 1;
  std::int64_t channels = 1;
  std::int64_t pixels = 1;

  constexpr std::int64_t size() const { return images * channels * pixels; }
};

namespace detail {

/// Of a shape that is no image [N, C, H, W]: all its elements as one channel, which every layout orders alike.
inline Activation activation_of(const Shape& shape) {
  if (shape.rank() != 4) return {1, 1, shape.numel()};
  return {shape[0], shape[1], shape[2] * shape[3]};
}

}  // namespace detail
}  // namespace lamina
