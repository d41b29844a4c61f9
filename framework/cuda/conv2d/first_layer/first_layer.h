#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// The convolution for few input channels on Hopper's tensor cores, a network's first layer: docs/inside/first_layer.md
/// explains it.
namespace lamina::cuda::first_layer {

/// At most 4 channels, one group, no dilation, equal strides up to 4, kernels up to 11; input and output of f32 or the
/// precision's storage type, each nchw or nhwc, small poolings in nhwc.
bool takes(const ConvProblem& problem, const Preparation& preparation);

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::first_layer
