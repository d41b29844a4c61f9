#pragma once

#include <vector>

#include "lamina/ops/expansion.h"

/// What rows become where only a run knows how many elements there are along an axis (docs/inside/ops.md).
namespace lamina::detail {

/// What there is of each node along that axis, beside each other.
int join_there(Expansion& e, std::vector<int> nodes, int axis);

/// Indices, for `depth` axes of the data from `first` on: from the front, and beyond all where they are outside of what
/// is there, by `beyond` more. Without that they stay where the data have no counts there.
int from_front(Expansion& e, int data, int indices, int first, int depth, std::int64_t beyond = 0);

/// A scatter that leaves out what is behind a count.
int solve_scatter(Expansion& e, const ScatterProblem& problem, int data, int indices, int updates);

/// What stands at places along an axis.
int values_at(Expansion& e, int x, int places, int axis);

/// The places of as many of the largest or smallest as `made` says, or where it is -1 `most`.
int counted_top_k(Expansion& e, TopKProblem problem, std::int64_t most, int made);

/// What is behind the counts changes nothing.
int counted_reduce(Expansion& e, Reduction kind, int x, std::vector<int> axes, bool keep);

/// Up to a limit that a run makes.
int counted_range(Expansion& e);

/// One of two operands by a condition that a run makes.
int choose_in_run(Expansion& e);

}  // namespace lamina::detail
