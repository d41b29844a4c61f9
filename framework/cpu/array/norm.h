#pragma once

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/problems.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cpu {

/// Rows of f32, f64, f16 or bf16, each normalised; mean and variance in double, the variance from the mean on.
void norm(const NormProblem& problem, const Tensor& input, Tensor& output, ThreadPool& pool);

}  // namespace lamina::cpu
