#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// The row of the table of fully connected layers that computes in bf16: input and output of f32 or bf16. The weights
/// are streamed, and f32 multiplies them: for few rows.
namespace lamina::cpu {

bool takes_bf16_linear(const LinearProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_bf16_linear(const LinearProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu
