#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::detail {

/// Where the elements of an activation lie in the memory of another, in elements.
struct Placement {
  std::int64_t first = 0;  ///< element (0, 0, ...)
  Shape strides = {};      ///< from there, along each dimension
};

/// The strides of an activation whose elements, in the order in which its own memory has them, lie along axes as these,
/// outermost first. Nothing if that takes more than a stride for each dimension.
std::optional<Shape> strides_along(std::vector<MoveProblem::Axis> axes, const View& view);

/// What a move writes, as it lies in what the move reads. Nothing if that takes more than a stride for each dimension.
std::optional<Placement> placed_in_input(const MoveProblem& problem, const Preparation& preparation);

/// What a move reads, as it is to lie in what the move writes. Nothing if an element goes to more or fewer places than
/// one, or if that takes more than a stride for each dimension.
std::optional<Placement> placed_in_output(const MoveProblem& problem, const Preparation& preparation);

}  // namespace lamina::detail
