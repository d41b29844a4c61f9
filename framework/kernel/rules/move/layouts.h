#pragma once

#include <optional>

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::detail {

/// The same move where input or output are images stored channels last: axes in the order of the output's memory,
/// offsets into the input's. Nothing if that cannot be said so: an axis runs across dimensions of the output, or a step
/// along one carries from one dimension of the input into another.
std::optional<MoveProblem> in_memory_order(const MoveProblem& problem, const View& input, const View& output);

}  // namespace lamina::detail
