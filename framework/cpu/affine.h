#pragma once

#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/simd.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/format.h"

namespace lamina::cpu {

/// max(scale x + shift, 0) or, without the ReLU, scale x + shift of `rows` rows of `length` elements, compiled for one
/// instruction set. NaN stays NaN.
struct AffineKernel {
  struct Rows {
    const void* input;
    const float* scale;  // [length], or [rows] if one for the row
    const float* shift;
    void* output;
    std::int64_t rows, length;
    std::int64_t input_pitch, output_pitch;  // elements from row to row
    bool one_for_row, relu;
  };
  using Run = void (*)(const Rows& rows);
  InstructionSet set;
  Run f32, bf16;
};

/// Those that this machine runs, the fastest first; the last one needs no vectors.
std::span<const AffineKernel> affine_kernels();

/// Elements from pixel to pixel of images stored channels last; 0: as many as there are channels.
struct PixelPitches {
  std::int64_t input = 0, output = 0;
};

/// An activation of f32 or bf16 in `format`, times scale [channels] plus shift [channels]. The output may be the input.
void scale_and_shift(const AffineKernel& kernel, Format format, const Activation& activation, PixelPitches pitches,
                     const void* input, const float* scale, const float* shift, void* output, bool relu,
                     ThreadPool& pool);

}  // namespace lamina::cpu
