#pragma once

#include <cstdint>

#include "lamina/base/thread_pool.h"

namespace lamina::cpu {

/// output = input * scale + shift, each of a channel's own, then the ReLU if asked for. The two may be the same memory.
void scale_and_shift(const float* input,  // [images, channels, pixels]
                     const float* scale,  // [channels]
                     const float* shift,  // [channels]
                     float* output,       // [images, channels, pixels]
                     std::int64_t images, std::int64_t channels, std::int64_t pixels, bool relu, ThreadPool& pool);

/// Copies `rows` rows of `width` bytes each, whose starts lie `pitch` bytes apart in the output.
void copy_rows(const std::byte* input,  // [rows, width]
               std::byte* output,       // [rows, pitch], pitch >= width
               std::int64_t rows, std::int64_t width, std::int64_t pitch, ThreadPool& pool);

}  // namespace lamina::cpu
