#pragma once

#include <cstdint>

#include "lamina/cuda/conv2d/conv2d.h"
#include "lamina/tensor/activation.h"

/// Elementwise work on activations of f32, f16 or bf16 in the memory of CUDA device `device`, enqueued on `stream`;
/// see cpu/elementwise.h. Arithmetic is in f32. The output may be the first input. Throws Error for other types.
namespace lamina::cuda {

void sigmoid(int device, DType dtype, const void* input, void* output, std::int64_t count, Stream stream);

void add(int device, DType dtype, const void* a, const void* b, void* output, std::int64_t count, bool relu,
         Stream stream);

/// Input and output in `format`.
void scale_and_shift(int device, Format format, const Activation& activation, const void* input,
                     const float* scale,  // [channels]
                     const float* shift,  // [channels]
                     void* output, bool relu, Stream stream);

/// Copies rows of bytes whose starts lie `pitch` bytes apart in the output.
void copy_rows(int device,
               const void* input,  // [rows, width]
               void* output,       // [rows, pitch], pitch >= width
               std::int64_t rows, std::int64_t width, std::int64_t pitch, Stream stream);

}  // namespace lamina::cuda
