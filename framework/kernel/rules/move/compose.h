#pragma once

#include <optional>
#include <span>

#include "lamina/kernel/problems.h"
#include "lamina/tensor/shape.h"

namespace lamina::detail {

/// One move that does what `second` does to the output of `first`. Nothing if that cannot be said by axes whose offsets
/// add up: an axis of `second` that is no stride runs across axes of `first`, `first` has elements outside, or tables
/// would be too long.
std::optional<MoveProblem> composed(const MoveProblem& second, MoveProblem first);

/// One move that writes, beside each other along dimension `axis`, what the parts take of one input, in tensors of
/// `shapes`: a roll, every second pixel and the others. Nothing if a part has not one axis for each dimension, if they
/// differ in more than `axis` and where they begin, or if tables would be too long.
std::optional<MoveProblem> beside(std::span<const MoveProblem> parts, std::span<const Shape> shapes, std::size_t axis);

Shape with_last_two_swapped(Shape shape);
/// The move that writes with_last_two_swapped(to) where `problem` writes `to`. Nothing if an axis is of both
/// dimensions.
std::optional<MoveProblem> with_last_two_swapped(const MoveProblem& problem, const Shape& to);

/// A move of whole rows, `length` of the `elements` of its output each, as the same of rows of `wanted` elements.
/// Nothing if it is none, or leaves some out.
std::optional<MoveProblem> moves_rows(const MoveProblem& problem, std::int64_t elements, std::int64_t length,
                                      std::int64_t wanted);

}  // namespace lamina::detail
