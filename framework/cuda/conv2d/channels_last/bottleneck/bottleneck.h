#pragma once

#include <memory>

#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/operator.h"

/// The end of a residual block and the beginning of the next in one launch, between channels-last activations of f16 on
/// compute capability 9.0: the wide map is narrowed out of shared memory while it is stored. See kernel.cuh and
/// docs/inside/channels_last.md.
namespace lamina::cuda::channels_last::bottleneck {

bool takes(const BottleneckProblem& problem, const Preparation& preparation);
/// Of what it takes: whether one launch for both is expected to gain.
bool pays(const BottleneckProblem& problem, const Preparation& preparation);
/// Throws Error if memory runs out.
std::unique_ptr<Operator> prepare(const BottleneckProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::channels_last::bottleneck
