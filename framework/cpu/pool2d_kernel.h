#pragma once

#include <span>

#include "lamina/cpu/simd.h"
#include "lamina/tensor/pool_geometry.h"

namespace lamina::cpu {

/// Floats of the row that PoolKernel works in.
std::int64_t pool2d_row_length(const PoolGeometry& geometry);

/// One row of pooling windows, compiled for one instruction set: the window's rows are combined first, which is plain
/// vector work, and then that row's columns. `row` is pool2d_row_length() floats, of which [padding_width,
/// padding_width + W) are overwritten; the others hold what changes no result: -inf or 0. No pass checks bounds.
struct PoolKernel {
  using Windows = void (*)(const PoolGeometry& geometry,
                           const float* plane,  // [H, W]
                           int oh, float* row,
                           float* out);  // [OW]
  InstructionSet set;
  Windows largest;  // NaN if there is one in the window, -inf for a window without pixels
  Windows sum;
};

/// Those that this machine runs, the fastest first; the last one needs no vectors.
std::span<const PoolKernel> pool_kernels();

}  // namespace lamina::cpu
