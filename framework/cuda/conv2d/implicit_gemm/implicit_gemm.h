#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// Convolution on tensor cores for any geometry: a matrix product that gathers its second operand as it goes, by
/// mma.sync and cp.async. docs/inside/implicit_gemm.md explains it.
namespace lamina::cuda::implicit_gemm {

/// A device of compute capability 8.0 or more, f32 or the precision's storage type, an output of nhwc, a kernel of at
/// most 127 on each axis, no pooling, and one image, rearranged where it must be, within the workspace limit.
/// Tuning: tile, splits.
bool takes(const ConvProblem& problem, const Preparation& preparation);

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::implicit_gemm
