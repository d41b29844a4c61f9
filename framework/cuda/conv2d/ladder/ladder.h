#pragma once

#include <memory>

#include "lamina/cuda/conv2d/conv2d.h"

/// The five textbook algorithms as Conv2dKernel: fp32 NCHW (im2col also TF32), every geometry. prepare_conv2d has
/// validated the options. Each throws Error if the device is out of memory.
namespace lamina::cuda {

std::unique_ptr<Conv2dKernel> make_direct(const ConvGeometry& geometry, const Conv2dOptions& options,
                                          const float* weight, const float* bias);

/// Falls back to `direct` where the kernel is not instantiated for the geometry.
std::unique_ptr<Conv2dKernel> make_direct_fixed(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                const float* weight, const float* bias);

/// Falls back to `direct` where one padded image exceeds the workspace limit.
std::unique_ptr<Conv2dKernel> make_direct_padded(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                 const float* weight, const float* bias);

/// Falls back to `direct` where one kernel row of one output exceeds shared memory.
std::unique_ptr<Conv2dKernel> make_tiled(const ConvGeometry& geometry, const Conv2dOptions& options,
                                         const float* weight, const float* bias);

/// Throws Error if the workspace limit is below 32 columns, or if cuBLAS cannot be loaded.
std::unique_ptr<Conv2dKernel> make_im2col(const ConvGeometry& geometry, const Conv2dOptions& options,
                                          const float* weight, const float* bias);

}  // namespace lamina::cuda
