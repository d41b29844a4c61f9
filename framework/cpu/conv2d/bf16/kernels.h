#pragma once

#include <memory>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// The rows of the table of convolutions that compute in bf16.
namespace lamina::cpu::bf16 {

/// Precision bf16, channels last: input bf16 or f32 (nchw too), output bf16 or f32 nhwc, any geometry.
bool takes(Unit unit, const ConvProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare(Unit unit, const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu::bf16
