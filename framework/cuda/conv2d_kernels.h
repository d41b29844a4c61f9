#pragma once

#include <cstdint>

#include "lamina/cuda/conv2d.h"

/// The launchers of the textbook ladder: each enqueues one kernel on the current device and checks the launch.
/// conv2d.cpp decides which to call; docs/kernels.md explains them. All tensors are f32 in device memory.
namespace lamina::cuda {

struct Conv2dArguments {
  const float* input = nullptr;   // [N, C, H, W]
  const float* weight = nullptr;  // layout as each launcher says
  const float* bias = nullptr;    // [OC], or null
  float* output = nullptr;        // [N, OC, OH, OW]
  bool relu = false;
};

/// weight [OC, C / groups, KH, KW].
void conv2d_direct(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream);

}  // namespace lamina::cuda
