#pragma once

#include <optional>

#include "lamina/kernel/problems.h"

namespace lamina::detail {

/// One move that does what `second` does to the output of `first`. Nothing if that cannot be said by axes whose offsets
/// add up: an axis of `second` that is no stride runs across axes of `first`, `first` has elements outside, or tables
/// would be too long.
std::optional<MoveProblem> composed(const MoveProblem& second, const MoveProblem& first);

}  // namespace lamina::detail
