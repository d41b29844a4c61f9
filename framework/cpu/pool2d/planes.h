#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// Neighbouring windows of one row of outputs, and what of a plane they cover.
struct PlaneWindows {
  static constexpr int most_columns = 2048;  ///< that they cover together

  const float* first = nullptr;  // of the columns inside the plane, in the first row that is covered
  std::int64_t rows = 0;         // covered
  std::int64_t row = 0;          // elements from one of these to the next
  std::int64_t width = 0;        // columns that they cover together, of which
  std::int64_t begin = 0;        // this is the first inside the plane,
  std::int64_t end = 0;          // and this the first behind it
  int kernel = 1, dilation = 1;  // taps of a window along the row, and columns from one to the next
  int stride = 1;                // columns from window to window
  std::int64_t outputs = 0;
  float* output = nullptr;
  float row_cells = 1;           // a sum is divided by these times those of its columns
  const float* cells = nullptr;  // [outputs]
};

/// Such a part, compiled for one instruction set.
struct PlanePoolKernel {
  using Run = void (*)(const PlaneWindows& windows);
  InstructionSet set;
  Run largest;  // NaN if there is one in the window, -inf for a window without pixels
  Run mean;     // sums of columns, summed, by the divisor
};

/// Those that this machine runs, the fastest first; the last one needs no vectors.
std::span<const PlanePoolKernel> plane_pool_kernels();

/// Whether plane_pool2d() computes it: windows that are alike and not very wide.
bool pools_planes(PoolKind kind, const PoolGeometry& geometry);

/// pool2d() of f32 stored nchw: input [planes, H, W], output [planes, OH, OW].
void plane_pool2d(PoolKind kind, const PlanePoolKernel& kernel, const PoolGeometry& geometry, const float* input,
                  float* output, ThreadPool& pool);

}  // namespace lamina::cpu
