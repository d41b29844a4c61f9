#pragma once

#include <span>

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/walk.h"

/// Functions of the elements of arrays of any shape, moves, reductions, norms.
namespace lamina::cuda {

/// Operands of any dtype and layout that broadcast.
Takes<PointwiseProblem> takes_broadcast;
Prepare<PointwiseProblem> prepare_broadcast;

/// Rows of bytes beside each other. What is where it belongs already is left alone. One launch for up to 32 inputs
/// beside each other.
Prepare<ConcatProblem> prepare_concat;

Takes<MoveProblem> takes_move;
Prepare<MoveProblem> prepare_move;

/// Those of f32, f16 and bf16 in compensated sums of f32.
Prepare<ReduceProblem> prepare_reduce;

/// Rows of f32, f16 or bf16. Arithmetic is in f32. The output may be the input.
Takes<NormProblem> takes_norm;
Prepare<NormProblem> prepare_norm;
/// Groups of the channels of images channels last.
Takes<NormProblem> takes_norm_of_groups;
Prepare<NormProblem> prepare_norm_of_groups;
bool norm_of_groups_pays(const NormProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda
