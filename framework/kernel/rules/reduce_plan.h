#pragma once

#include <cstdint>
#include <vector>

#include "lamina/kernel/problems.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina::detail {

/// A ReduceProblem in the order of memory, by as few axes as do.
struct ReducePlan {
  std::vector<WalkAxis> kept;     ///< in the order of the output's memory, which they go through one by one: strides[0]
                                  ///< is the input's
  std::vector<WalkAxis> reduced;  ///< from the largest of the input's strides, strides[0]
  std::int64_t outputs = 1, extent = 1;
};
ReducePlan reduce_plan(const ReduceProblem& problem, const Preparation& preparation);

/// Whether the operands are as the problem wants them: dimensions that the input has, one for arg_max and arg_min, and
/// an output that keeps them as 1 or does without them.
bool is_reducible(const ReduceProblem& problem, const Preparation& preparation);

inline bool finds_place(Reduction kind) { return kind == Reduction::arg_max || kind == Reduction::arg_min; }

/// What is computed with: f64 for floats and what needs logarithms and roots, i64 or u64 for whole numbers.
DType reduction_type(Reduction kind, DType input);

/// Of nothing: the largest number that max can return, the least of min; of a dtype, as f64 (u64's rounds up).
double least_of(DType dtype);
double max_of(DType dtype);

}  // namespace lamina::detail
