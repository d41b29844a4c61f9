#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/conv_geometry.h"

/// Convolutions on the CPU: plain functions on pointers. The layer has validated the geometry.
namespace lamina::cpu {

struct Conv2dPointers {
  const float* input = nullptr;   // [N, C, H, W]
  const float* weight = nullptr;  // [OC, C / groups, KH, KW]
  const float* bias = nullptr;    // [OC], or null
  float* output = nullptr;        // [N, OC, OH, OW]
  bool relu = false;              // y = max(y, 0) before it is stored; NaN stays NaN
};

/// The plain loops, summed in double: slow, and as exact as a float can be.
void conv2d_direct(const ConvGeometry& geometry, const Conv2dPointers& pointers, ThreadPool& pool);

/// The readable reference: whole images unfolded to columns, and Eigen's product. `workspace` is
/// conv2d_eigen_workspace() bytes: an image's columns for each thread.
void conv2d_eigen(const ConvGeometry& geometry, const Conv2dPointers& pointers, ThreadPool& pool, float* workspace);
std::size_t conv2d_eigen_workspace(const ConvGeometry& geometry, int threads);

/// Planes as they lie, of few filters a group and no stride: a band of rows at a time, in floats but for its rows.
struct RowBand {
  std::int64_t pitch, height, rows, input, sums;
  std::size_t workspace;  // bytes of a thread
  bool takes;             // no stride, and no window that reaches too far

  explicit RowBand(const ConvGeometry& geometry);
};
struct RowKernel {
  InstructionSet set;
  void (*run)(const ConvGeometry& geometry, const RowBand& band, const Conv2dPointers& pointers, std::int64_t top,
              std::int64_t group, std::byte* workspace);
};
/// Those that this machine runs, the fastest first.
std::span<const RowKernel> row_kernels();

}  // namespace lamina::cpu
