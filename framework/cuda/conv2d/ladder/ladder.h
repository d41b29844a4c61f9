#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/problems.h"

/// The five textbook algorithms: nchw f32, every geometry, in fp32, im2col also in TF32. docs/inside/kernels.md teaches
/// them.
namespace lamina::cuda::ladder {

bool takes(const ConvProblem& problem, const Preparation& preparation);
bool im2col_takes(const ConvProblem& problem, const Preparation& preparation);

std::unique_ptr<Operator> prepare_direct(const ConvProblem& problem, const Preparation& preparation);

/// Falls back to `direct` where one padded image exceeds the workspace limit.
std::unique_ptr<Operator> prepare_padded(const ConvProblem& problem, const Preparation& preparation);

/// Falls back to `direct` where the kernel is not instantiated for the geometry.
std::unique_ptr<Operator> prepare_fixed(const ConvProblem& problem, const Preparation& preparation);

/// Falls back to `direct` where one kernel row of one output exceeds shared memory.
std::unique_ptr<Operator> prepare_tiled(const ConvProblem& problem, const Preparation& preparation);

/// Throws Error if the workspace limit is below 32 columns, or if cuBLAS cannot be loaded.
std::unique_ptr<Operator> prepare_im2col(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::ladder
