#pragma once

#include <memory>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Functions of the elements of arrays of any shape, moves, reductions and norms on a CPU: the operators of problems
/// that kernels.cpp takes.
namespace lamina::cpu {

/// The output may be an input of its shape and dtype.
std::unique_ptr<Operator> prepare_pointwise(const PointwiseProblem& problem, const Preparation& preparation);

/// Of codes to codes, one of 256 for each: computed in f64 here and now.
std::unique_ptr<Operator> prepare_table(const PointwiseProblem& problem, const Preparation& preparation);

std::unique_ptr<Operator> prepare_move(const MoveProblem& problem, const Preparation& preparation);

/// Those of floats are computed in double, so that no sum of them loses to its length.
std::unique_ptr<Operator> prepare_reduce(const ReduceProblem& problem, const Preparation& preparation);

/// Of rows of f32 or bf16, or of groups of the channels of images [N, C, H, W] that are stored channels last. Inputs:
/// what is normalised, and what the epilogue adds.
std::unique_ptr<Operator> prepare_norm(const NormProblem& problem, const Preparation& preparation);
std::unique_ptr<Operator> prepare_norm_of_pixels(const NormProblem& problem, const Preparation& preparation);

}  // namespace lamina::cpu
