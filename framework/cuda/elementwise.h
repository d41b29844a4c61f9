#pragma once

#include <cstdint>

#include "lamina/cuda/conv2d.h"

/// Elementwise work on f32 arrays in the memory of CUDA device `device`, enqueued on `stream`; see cpu/elementwise.h.
/// The output may be the first input.
namespace lamina::cuda {

void sigmoid(int device, const float* input, float* output, std::int64_t count, Stream stream);

void add(int device, const float* a, const float* b, float* output, std::int64_t count, bool relu, Stream stream);

void scale_and_shift(int device,
                     const float* input,  // [images, channels, pixels]
                     const float* scale,  // [channels]
                     const float* shift,  // [channels]
                     float* output,       // [images, channels, pixels]
                     std::int64_t images, std::int64_t channels, std::int64_t pixels, bool relu, Stream stream);

void copy_rows(int device,
               const float* input,  // [rows, width]
               float* output,       // [rows, pitch], pitch >= width
               std::int64_t rows, std::int64_t width, std::int64_t pitch, Stream stream);

}  // namespace lamina::cuda
