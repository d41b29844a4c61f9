#pragma once

#include <memory>

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// The rows of the table of convolutions that compute in bf16.
namespace lamina::cpu::bf16 {

/// Precision bf16, channels last: input bf16 or f32 (nchw too), output bf16 or f32 nhwc, any geometry.
template <Unit unit>
bool takes(const ConvProblem& problem, const Preparation& preparation);
template <Unit unit>
std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation);

/// The same for what is no convolution otherwise: rows of a matrix as pixels.
std::unique_ptr<Operator> prepare_convolution(const ConvProblem& problem, Format input, DType output,
                                              const Engine& engine, const Preparation& preparation);

}  // namespace lamina::cpu::bf16
