#pragma once

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/problems.h"

/// Work on arrays of any shape that is no Map.
namespace lamina::cuda {

/// Rows of bytes beside each other. What is where it belongs already is left alone. One launch for up to 32 inputs
/// beside each other.
Prepare<ConcatProblem> prepare_concat;

/// Of the largest, or of the least.
Takes<ReduceProblem> takes_places;
Prepare<ReduceProblem> prepare_places;

}  // namespace lamina::cuda
