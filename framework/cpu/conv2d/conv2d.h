#pragma once

#include <cstddef>

#include "lamina/base/thread_pool.h"
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

/// The textbook way: unfold a whole image to columns, one product per image and group.
/// `workspace` is conv2d_im2col_workspace() bytes: one image's columns for each thread.
void conv2d_im2col(const ConvGeometry& geometry, const Conv2dPointers& pointers, ThreadPool& pool, float* workspace);
std::size_t conv2d_im2col_workspace(const ConvGeometry& geometry, int threads);

/// The same product, a tile of pixels at a time, so that the columns never leave the L2 cache.
/// `workspace` is conv2d_eigen_workspace() bytes: one tile's columns for each thread.
void conv2d_eigen(const ConvGeometry& geometry, const Conv2dPointers& pointers, ThreadPool& pool, float* workspace);
std::size_t conv2d_eigen_workspace(const ConvGeometry& geometry, int threads);

/// Pixels of one tile of `conv2d_eigen`.
int conv2d_eigen_tile(const ConvGeometry& geometry);

}  // namespace lamina::cpu
