#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// 1x1 convolutions to few filters between channels-last activations of 16 bits, of an image or of an image times
/// factors of its channels; or of codes, of which what comes may be looked up or added to others. Compute
/// capability 8.0 and up. See kernel.cuh and docs/inside/grouped.md.
namespace lamina::cuda::narrow {

bool takes(const ConvProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::narrow
