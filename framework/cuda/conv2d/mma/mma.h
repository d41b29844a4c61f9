#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// Conv2d on mma.sync, compute capability 8.0 and up, in three forms that differ in how the pixels come to shared
/// memory.
namespace lamina::cuda::mma {

/// Once, with their halo: a tap is an offset there. Between channels-last activations of the precision's storage type,
/// any channels, groups and geometry whose window fits. See resident/kernel.cuh and docs/inside/grouped.md.
namespace resident {

/// Tuning: tile.
bool takes(const ConvProblem& problem, const Preparation& preparation);
/// Codes to codes, looked up or added to others: pairs of channels and of filters in each group. Tuning: tile.
bool takes_codes(const ConvProblem& problem, const Preparation& preparation);
/// Of either. Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace resident

/// Tap by tap, as a matrix product gathers its second operand: implicit GEMM. docs/inside/implicit_gemm.md explains it.
namespace gathered {

/// f32 or the precision's storage type, an output of nhwc, a kernel of at most 127 on each axis, no pooling, and one
/// image, rearranged where it must be, within the workspace limit. Tuning: tile, splits.
bool takes(const ConvProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace gathered

/// Of images that stay channels first, of one pixel: 16 bits, pixels by eights.
namespace planes {

bool takes(const ConvProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

}  // namespace planes

}  // namespace lamina::cuda::mma
