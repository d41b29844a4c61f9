#pragma once

#include <memory>

#include "lamina/cuda/buffer.h"
#include "lamina/cuda/conv2d.h"

/// The five textbook algorithms as Conv2dKernel: fp32 NCHW, every geometry. prepare_conv2d has validated the options.
namespace lamina::cuda {

/// Weights [OC, C / groups, KH, KW] as they are, and the bias (or null), on the device.
struct Conv2dParameters {
  Conv2dParameters(const ConvGeometry& geometry, int device, const float* weight, const float* bias);
  std::size_t bytes() const { return weight.bytes() + bias.bytes(); }

  Buffer weight;
  Buffer bias;
};

std::unique_ptr<Conv2dKernel> make_direct(const ConvGeometry& geometry, const Conv2dOptions& options,
                                          const float* weight, const float* bias);

}  // namespace lamina::cuda
