#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// First layers of 3x3 windows with stride 2 over up to four channels, from planes to channels-last activations of 16
/// bits. Compute capability 8.0 and up. See stem.cu and docs/inside/grouped.md.
namespace lamina::cuda::stem {

bool takes(const ConvProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::stem
