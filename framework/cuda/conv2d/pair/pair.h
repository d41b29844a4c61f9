#pragma once

#include <memory>

#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/operator.h"

/// A 1x1 convolution and the depthwise one behind it, as mobile networks' blocks begin, between channels-last
/// activations of 16 bits: what lies between them stays in shared memory. Compute capability 8.0 and up. See kernel.cuh
/// and docs/inside/grouped.md.
namespace lamina::cuda::pair {

bool takes(const ConvPairProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvPairProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::pair
