// Two moves as one: it takes what the second takes of what the first has taken.

#include "lamina/kernel/rules/move/compose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "kernel/walked.h"

namespace lamina::test::move_compose_test {
namespace {

using Axis = MoveProblem::Axis;
using Places = std::vector<std::int64_t>;

/// Whether they were joined; if so, to what they are one after the other.
bool joined(const MoveProblem& second, const MoveProblem& first) {
  const auto both = detail::composed(second, first);
  if (!both) return false;
  const Places inner = walked(first), outer = walked(second), found = walked(*both);
  EXPECT_EQ(found.size(), outer.size());
  for (std::size_t i = 0; i < std::min(found.size(), outer.size()); ++i) {
    const std::int64_t expected = outer[i] < 0 ? -1 : inner[static_cast<std::size_t>(outer[i])];
    EXPECT_EQ(found[i], expected) << "element " << i;
    if (found[i] != expected) break;
  }
  return true;
}

/// [a, b, c] in the order of `order`.
MoveProblem permuted(const std::vector<std::int64_t>& extents, const std::vector<std::size_t>& order) {
  MoveProblem problem;
  for (const std::size_t dim : order) {
    std::int64_t stride = 1;
    for (std::size_t d = dim + 1; d < extents.size(); ++d) stride *= extents[d];
    problem.axes.push_back({extents[dim], stride});
  }
  return problem;
}

TEST(MoveCompose, WhatAttentionIsExportedAs) {
  const std::int64_t n = 3, l = 5, h = 2, d = 4;
  const MoveProblem batch_first = permuted({n, l, 3 * h * d}, {1, 0, 2});  // [L, N, 3 E]
  const MoveProblem parts = permuted({l, n, 3, h * d}, {2, 0, 1, 3});      // [3, L, N, E]
  const auto both = detail::composed(parts, batch_first);
  ASSERT_TRUE(both.has_value());
  EXPECT_TRUE(joined(parts, batch_first));
  for (std::int64_t part = 0; part < 3; ++part) {
    const MoveProblem slice = {.axes = {{1, 0, {part * l * n * h * d}}, {l * n * h * d, 1}}};
    ASSERT_TRUE(joined(slice, *both)) << part;
    const MoveProblem heads = permuted({l, n * h, d}, {1, 0, 2});  // [N H, L, D]
    EXPECT_TRUE(joined(heads, *detail::composed(slice, *both))) << part;
  }
}

TEST(MoveCompose, TablesFlipsAndFills) {
  const MoveProblem turned = permuted({4, 6}, {1, 0});  // [6, 4]
  const MoveProblem rows = {.axes = {{3, 0, {20, 0, 8}}, {4, 1}}};
  const MoveProblem flipped = {.axes = {{6, 4}, {4, 0, {3, 2, 1, 0}}}};
  const MoveProblem padded = {.axes = {{8, 0, {-1, 0, 4, 8, 12, 16, 20, -1}}, {4, 1}}, .fill = 7};
  const MoveProblem expanded = {.axes = {{2, 0}, {24, 1}}};
  for (const MoveProblem& second : {rows, flipped, padded, expanded}) EXPECT_TRUE(joined(second, turned));
  EXPECT_TRUE(joined(permuted({6, 4}, {1, 0}), flipped));
  EXPECT_TRUE(joined(flipped, expanded));
}

/// Rolls of two dimensions, which begin in the middle of both; what a slice, said as a table, is then divided into.
TEST(MoveCompose, RollsAndDividedSlices) {
  const MoveProblem down = {.axes = {{2, 24}, {4, 0, {18, 0, 6, 12}}, {6, 1}}};
  const MoveProblem across = {.axes = {{2, 24}, {4, 6}, {6, 0, {4, 5, 0, 1, 2, 3}}}};
  EXPECT_TRUE(joined(across, down));
  EXPECT_TRUE(joined(down, across));
  const MoveProblem slice = {.axes = {{5, 12}, {4, 0, {4, 5, 6, 7}}}};
  EXPECT_TRUE(joined({.axes = {{2, 2}, {5, 4}, {2, 1}}}, slice));
  EXPECT_FALSE(joined({.axes = {{2, 3}, {2, 24}, {3, 1}, {2, 6}}}, across));  // two axes within what is rolled
}

TEST(MoveCompose, PartsBesideEachOther) {
  const Shape rows = {1, 4}, two = {2, 4};
  const MoveProblem last = {.axes = {{1, 0, {8}}, {4, 1}}}, first = {.axes = {{2, 0, {0, 4}}, {4, 1}}};
  const auto roll = detail::beside(std::vector{last, first}, std::vector{rows, two}, 0);
  ASSERT_TRUE(roll.has_value());
  EXPECT_EQ(walked(*roll), (Places{8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7}));
  const MoveProblem even = {.axes = {{2, 4}, {2, 2}}}, odd = {.axes = {{1, 0, {1}}, {2, 4}, {2, 2}}};
  const auto halves = detail::beside(std::vector{even, odd}, std::vector<Shape>{{2, 2}, {2, 2}}, 1);
  ASSERT_TRUE(halves.has_value());
  EXPECT_EQ(walked(*halves), (Places{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_TRUE(halves->axes.back().offsets.empty());  // neighbours may be moved together
  const MoveProblem padded = {.axes = {{1, 0, {-1}}, {4, 1}}};
  EXPECT_EQ(walked(*detail::beside(std::vector{padded, first}, std::vector{rows, two}, 0)),
            (Places{-1, -1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 7}));
  const MoveProblem turned = {.axes = {{1, 1}, {4, 4}}};
  EXPECT_FALSE(detail::beside(std::vector{last, turned}, std::vector{rows, rows}, 0).has_value());
}

TEST(MoveCompose, WhatCannotBeSaidIsRefused) {
  const MoveProblem turned = permuted({4, 6}, {1, 0});
  EXPECT_FALSE(joined({.axes = {{3, 3}, {3, 1}}}, turned));                        // from one row into the next, or not
  EXPECT_FALSE(joined({.axes = {{24, 1}}}, {.axes = {{24, 0, Places(24, -1)}}}));  // the first has elements outside
  EXPECT_FALSE(joined({.axes = {{0, 1}}}, turned));
  EXPECT_FALSE(joined(turned, {.axes = {{0, 1}}}));
  EXPECT_FALSE(detail::composed({.axes = {{std::numeric_limits<std::int64_t>::max(), 1}}}, turned).has_value());
}

// Permutations of permutations, the second of another division of the same elements.
TEST(MoveCompose, RandomPermutations) {
  std::mt19937 random(1);
  int successes = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> extents = {2, 3, 2, 2, 5}, merged;
    std::ranges::shuffle(extents, random);
    std::vector<std::size_t> order = {0, 1, 2, 3, 4};
    std::ranges::shuffle(order, random);
    const MoveProblem first = permuted(extents, order);
    // Neighbouring axes of what it writes, taken together or not.
    for (const Axis& axis : first.axes) {
      if (!merged.empty() && random() % 2 == 0) {
        merged.back() *= axis.extent;
      } else {
        merged.push_back(axis.extent);
      }
    }
    std::vector<std::size_t> again(merged.size());
    for (std::size_t i = 0; i < again.size(); ++i) again[i] = i;
    std::ranges::shuffle(again, random);
    successes += joined(permuted(merged, again), first);
  }
  EXPECT_EQ(successes, 300);
}

}  // namespace
}  // namespace lamina::test::move_compose_test
