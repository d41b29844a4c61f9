#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "lamina/cuda/runtime/stream.h"

/// f32 activations for f16 tensor cores: block floating point. A block, 64 or 128 neighbouring channels of one pixel,
/// is multiplied by a power of two that brings its largest magnitude into [2^14, 2^15), and rounded: x = (high + low /
/// 2^11) / power, where `high` and `low` are f16. With both words 22 bits are left of what is not below 2^-28 of the
/// block's largest; with the first alone, the 11 bits of TF32. docs/inside/channels_last.md says what becomes of the
/// others.
namespace lamina::cuda {

/// The low words are stored multiplied by this, so that they are as far from f16's smallest as the high ones.
inline constexpr float low_word_scale = 2048.0f;
/// Scaled magnitudes from here on have all their bits: below, f16 is subnormal.
inline constexpr float least_scaled = 0x1p-14f;

struct ScaledRows {
  const float* input = nullptr;  // [pixels, channels]
  void* rows = nullptr;          // [pixels, slabs, 128 bytes]: 64 high words, or 32 and their 32 low words
  float* scales = nullptr;       // [blocks, pixels]: 1 / power; a block is two slabs, the last may be one
  std::int64_t pixels = 0;
  int channels = 0;    // a multiple of 4
  bool pairs = false;  // high and low words
  /// Blocks that hold a value which the words do not represent as they should get NaN for a scale, so that all sums
  /// they take part in are NaN and are found again in another way. Blocks with a NaN or Inf always do. Where this is
  /// false, no filter can tell the values in question from zero.
  bool strict = true;
};

/// Asynchronous in `stream`.
void scale_rows(const ScaledRows& task, Stream stream);

}  // namespace lamina::cuda
