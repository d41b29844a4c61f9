#pragma once

#include <cstdint>

#include "lamina/base/thread_pool.h"

namespace lamina::cpu {

/// output[i] = max(input[i], 0); NaN stays NaN. The two may be the same memory, as for all below.
void relu(const float* input, float* output, std::int64_t count, ThreadPool& pool);

/// output[i] = 1 / (1 + exp(-input[i]))
void sigmoid(const float* input, float* output, std::int64_t count, ThreadPool& pool);

/// output[i] = a[i] + b[i], then the ReLU if asked for.
void add(const float* a, const float* b, float* output, std::int64_t count, bool relu, ThreadPool& pool);

/// output = input * scale + shift, each of a channel's own, then the ReLU if asked for.
void scale_and_shift(const float* input,  // [images, channels, pixels]
                     const float* scale,  // [channels]
                     const float* shift,  // [channels]
                     float* output,       // [images, channels, pixels]
                     std::int64_t images, std::int64_t channels, std::int64_t pixels, bool relu, ThreadPool& pool);

/// Copies `rows` rows of `width` elements each, whose starts lie `pitch` elements apart in the output.
void copy_rows(const float* input,  // [rows, width]
               float* output,       // [rows, pitch], pitch >= width
               std::int64_t rows, std::int64_t width, std::int64_t pitch, ThreadPool& pool);

}  // namespace lamina::cpu
