#pragma once

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::detail {

/// Whether a function has a meaning for numbers of the type that it is computed in: the error function of whole numbers
/// has none, nor have the bits of floats.
bool applies(Pointwise function, DType compute);

/// What every kernel asks of a PointwiseProblem before it looks at formats: the functions apply, their operands are
/// there, and broadcast to the one output.
bool is_computable(const PointwiseProblem& problem, const Preparation& preparation);

/// Whether what has gaps lies in runs of at least, and of a multiple of, so many elements of the output's order.
bool has_runs_of(std::int64_t elements, const Preparation& preparation);

}  // namespace lamina::detail
