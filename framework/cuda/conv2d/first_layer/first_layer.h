#pragma once

#include <memory>

#include "lamina/cuda/conv2d/conv2d.h"

/// Convolutions with few input channels (a network's first layer) on Hopper's warpgroup tensor cores.
/// docs/first_layer.md explains the kernel; `ConvAlgorithm::implicit_gemm` means it on a device of compute capability 9.0.
namespace lamina::cuda {

/// True if this kernel can run the convolution: a compute-capability-9.0 device and a binary that holds sm_90a code,
/// at most 4 input channels, one group, no dilation, equal strides of 1 to 4, kernels up to 11x11,
/// f32 NCHW input, and f32 output (or f16 / bf16 output under that precision), NCHW or NHWC.
bool implicit_gemm_sm90_supports(const ConvGeometry& geometry, const Conv2dOptions& options);

/// Packs and uploads the weights. Precondition: `implicit_gemm_sm90_supports`.
/// Throws Error if the device is out of memory.
std::unique_ptr<Conv2dKernel> make_implicit_gemm_sm90(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                      const float* weight,  // [OC, C, KH, KW], host
                                                      const float* bias);   // [OC], host, or null

}  // namespace lamina::cuda
