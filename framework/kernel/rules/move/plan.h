#pragma once

#include <cstdint>
#include <vector>

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::detail {

/// A MoveProblem by as few axes as do, at least one: tables that are but a stride become one, neighbours that are one
/// stride become one axis, axes of one element are part of `base`.
struct MovePlan {
  std::vector<MoveProblem::Axis> axes = {};
  std::int64_t base = 0;   ///< offset of element (0, 0, ...)
  bool outside = false;    ///< every element is `fill`
  std::uint64_t fill = 0;  ///< the bits of an element outside
  std::int64_t count = 1;  ///< of the output
};
/// Of a problem that is_movable, between the preparation's views.
MovePlan move_plan(const MoveProblem& problem, const Preparation& preparation);

/// Whether the operands are as the problem wants them: of one dtype, without gaps, and in layouts in which it can be
/// said as strides and tables.
bool is_movable(const MoveProblem& problem, const Preparation& preparation);

/// Whether nothing moves: the elements lie in the output's memory as they do in the input's.
bool is_still(const MoveProblem& problem, const Preparation& preparation);

}  // namespace lamina::detail
