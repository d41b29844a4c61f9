#pragma once

#include <span>

#include "lamina/cpu/simd.h"
#include "lamina/kernel/pool_geometry.h"

namespace lamina::cpu {

/// Rows that PoolKernel works in, and the floats of one of them.
inline constexpr int pool2d_rows = 4;
std::int64_t pool2d_row_length(const PoolGeometry& geometry);

/// The pooling windows of a plane, compiled for one instruction set: of each row of windows the rows are combined
/// first, which is plain vector work, and then the columns. Of every one of `rows`, [padding_width, padding_width + W)
/// is overwritten; the rest holds what changes no result: -inf or 0. No pass checks bounds.
struct PoolKernel {
  using Windows = void (*)(const PoolGeometry& geometry,
                           const float* plane,  // [H, W]
                           float* rows,         // [pool2d_rows, pool2d_row_length()]
                           float* out);         // [OH, OW]
  InstructionSet set;
  Windows largest;  // NaN if there is one in the window, -inf for a window without pixels
  Windows sum;
};

/// Those that this machine runs, the fastest first; the last one needs no vectors.
std::span<const PoolKernel> pool_kernels();

}  // namespace lamina::cpu
