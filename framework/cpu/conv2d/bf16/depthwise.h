#pragma once

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu::bf16 {

/// A filter for each channel: bf16 nhwc to bf16 or f32 nhwc. Rows become f32 between zeros, 32 channels at a time;
/// products and sums are f32.
bool takes_depthwise(const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_depthwise(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu::bf16
