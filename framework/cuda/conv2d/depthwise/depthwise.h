#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// Conv2d with a filter for each channel, between channels-last activations of the precision's storage type, any
/// geometry, sums in f32. See kernel.cuh and docs/inside/grouped.md.
namespace lamina::cuda::depthwise {

bool takes(const ConvProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::depthwise
