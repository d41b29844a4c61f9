#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// The row of the table of fully connected layers that computes in bf16.
namespace lamina::cpu {

/// Precision bf16: input and output of f32 or bf16. Few rows stream the weights, which f32 multiplies; more are a
/// convolution 1x1 of as many pixels.
bool takes_bf16_linear(const LinearProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_bf16_linear(const LinearProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu
