#pragma once

#include "lamina/kernel/conv_sum.h"
#include "lamina/kernel/preparation.h"

namespace lamina::cuda::channels_last {

/// Whether the kernels take a layer as it is, and not by the rows of its patches (kernel/rules/patches.h).
bool takes_windows(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::channels_last
