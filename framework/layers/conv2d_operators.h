#pragma once

#include <memory>

#include "lamina/layers/operator.h"

/// How a convolution runs on each device; conv2d.cpp picks one.
namespace lamina::detail {

/// `weight` [OC, C / groups, KH, KW], `bias` [OC] or undefined; both f32 on the CPU.
std::unique_ptr<Operator> prepare_conv2d_cpu(const ConvGeometry& geometry, const Preparation& preparation,
                                             const Tensor& weight, const Tensor& bias);
std::unique_ptr<Operator> prepare_conv2d_cuda(const ConvGeometry& geometry, const Preparation& preparation,
                                              const Tensor& weight, const Tensor& bias);

}  // namespace lamina::detail
