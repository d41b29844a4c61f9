#pragma once

#include <memory>

#include "lamina/kernel/operator.h"

/// How a convolution runs on each device; conv2d.cpp picks one.
namespace lamina::detail {

/// Whether the functions below have a kernel for the formats and the pool asked for.
bool conv2d_cpu_takes(const ConvGeometry& geometry, const Preparation& preparation);
bool conv2d_cuda_takes(const ConvGeometry& geometry, const Preparation& preparation);

/// `weight` [OC, C / groups, KH, KW], `bias` [OC] or undefined; both f32 on the CPU.
std::unique_ptr<Operator> prepare_conv2d_cpu(const ConvGeometry& geometry, const Preparation& preparation,
                                             const Tensor& weight, const Tensor& bias);
std::unique_ptr<Operator> prepare_conv2d_cuda(const ConvGeometry& geometry, const Preparation& preparation,
                                              const Tensor& weight, const Tensor& bias);

}  // namespace lamina::detail
