#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// Conv2d on mma.sync between channels-last activations of the precision's storage type: any channels, groups and
/// geometry whose window fits into shared memory, compute capability 8.0 and up. See kernel.cuh and
/// docs/inside/grouped.md.
namespace lamina::cuda::mma {

bool takes(const ConvProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::mma
