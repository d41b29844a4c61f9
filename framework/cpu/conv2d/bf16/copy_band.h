#pragma once

#include <cstddef>
#include <cstdint>

#include "lamina/cpu/conv2d/bf16/convolution.h"

namespace lamina::cpu::bf16 {

/// Output rows of one image and group; of a Layer that is linear, pixels of all images.
struct BandRows {
  std::int64_t image = 0;
  int group = 0;
  std::int64_t first = 0, count = 0;
};

/// What the tiles of a band read, to blocks of step_channels channels between the zeros of the padding: see Layer.
/// `memory` is 64-byte aligned, Layer::copy_bytes() for it and Layer::row_bytes() behind.
void copy_band(const Layer& layer, const Pointers& pointers, const BandRows& band, std::byte* memory);

}  // namespace lamina::cpu::bf16
