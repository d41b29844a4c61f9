// What a move does as strides: of its output in its input, and of its input in its output.

#include "lamina/kernel/rules/move/strides.h"

#include <gtest/gtest.h>

#include <optional>

#include "kernel/walked.h"

namespace lamina::move_strides_test {
namespace {

using detail::Placement;
using Places = std::vector<std::int64_t>;

constexpr std::int64_t n = 3, l = 5, h = 2, d = 4;

/// What elements of `shape` are, in row-major order, where a placement has them.
Places placed(const Placement& placement, const Shape& shape) {
  MoveProblem walk;
  for (int i = 0; i < static_cast<int>(shape.rank()); ++i) walk.axes.push_back({shape[i], placement.strides[i]});
  Places places = test::walked(walk);
  for (std::int64_t& place : places) place += placement.first;
  return places;
}

struct Asked {
  View input, output;
  Preparation preparation;

  Asked(const Shape& from, const Shape& to, Layout layout = Layout::nchw)
      : input{.shape = from}, output{.shape = to, .format = {DType::f32, layout}} {
    preparation = {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu())};
  }
};

/// Whether what the move writes can be read in place; if so, that it is the same.
bool read_in_place(const MoveProblem& move, const Shape& from, const Shape& to) {
  const Asked asked(from, to);
  const auto placement = detail::placed_in_input(move, asked.preparation);
  if (!placement) return false;
  EXPECT_EQ(placed(*placement, to), test::walked(move));
  return true;
}

/// Whether what the move reads can be written in place; if so, that all lands where the move takes it.
bool written_in_place(const MoveProblem& move, const Shape& from, const Shape& to) {
  const Asked asked(from, to);
  const auto placement = detail::placed_in_output(move, asked.preparation);
  if (!placement) return false;
  const Places to_place = placed(*placement, from), source = test::walked(move);
  Places moved(source.size(), -1);
  for (std::size_t i = 0; i < to_place.size(); ++i) moved[static_cast<std::size_t>(to_place[i])] = std::int64_t(i);
  EXPECT_EQ(moved, source);
  return true;
}

/// Part `part` of the product [N, L, 3 H D] of one linear layer as [N, H, L, D].
MoveProblem heads_of(std::int64_t part) {
  return {.axes = {{1, 0, {part * h * d}}, {n, l * 3 * h * d}, {h, d}, {l, 3 * h * d}, {d, 1}}};
}

TEST(MoveStrides, HeadsOfOneProduct) {
  for (std::int64_t part = 0; part < 3; ++part) {
    EXPECT_TRUE(read_in_place(heads_of(part), {n, l, 3 * h * d}, {n, h, l, d})) << part;
    EXPECT_FALSE(written_in_place(heads_of(part), {n, l, 3 * h * d}, {n, h, l, d})) << part;  // two thirds are left out
  }
}

TEST(MoveStrides, HeadsSideBySideAgain) {
  const MoveProblem move = {.axes = {{n, h * l * d}, {l, d}, {h, l * d}, {d, 1}}};
  EXPECT_TRUE(written_in_place(move, {n, h, l, d}, {n, l, h * d}));
  EXPECT_FALSE(read_in_place(move, {n, h, l, d}, {n, l, h * d}));  // a row is of two strides
  EXPECT_TRUE(read_in_place(move, {n, h, l, d}, {n, l, h, d}));
}

TEST(MoveStrides, SequenceFirst) {
  const MoveProblem move = {.axes = {{l, d}, {n, h * l * d}, {h, l * d}, {d, 1}}};
  EXPECT_TRUE(written_in_place(move, {n, h, l, d}, {l, n, h * d}));
}

TEST(MoveStrides, ADimensionAcrossAxesIsNone) {
  const MoveProblem move = {.axes = {{l, 1}, {n, l}}};  // a transposition, read as one dimension
  EXPECT_FALSE(read_in_place(move, {n, l}, {n * l}));
  EXPECT_FALSE(written_in_place(move, {n * l}, {l, n}));
}

TEST(MoveStrides, WhatIsRepeatedIsReadButNotWritten) {
  const MoveProblem move = {.axes = {{n, 0}, {l, 1}}};
  EXPECT_TRUE(read_in_place(move, {l}, {n, l}));
  EXPECT_FALSE(written_in_place(move, {l}, {n, l}));
}

TEST(MoveStrides, TablesAndFillsAreNone) {
  EXPECT_FALSE(read_in_place({.axes = {{3, 0, {2, 0, 1}}}}, {3}, {3}));
  EXPECT_FALSE(read_in_place({.axes = {{3, 0, {-1, 0, 1}}}}, {2}, {3}));
  EXPECT_FALSE(written_in_place({.axes = {{3, 0, {2, 0, 1}}}}, {3}, {3}));
}

TEST(MoveStrides, ExtentsOfOne) {
  const MoveProblem move = {.axes = {{1, 7}, {h, d}, {1, 0}, {d, 1}}};
  EXPECT_TRUE(read_in_place(move, {1, h, d}, {1, h, 1, d}));
  EXPECT_TRUE(written_in_place(move, {1, h, d}, {1, h, 1, d}));
}

TEST(MoveStrides, OfAnImageChannelsLastTheChannelsAreInnermost) {
  const Asked asked({n, h, l, d}, {n, h, l, d}, Layout::nhwc);
  const MoveProblem same = {.axes = {{n * h * l * d, 1}}};  // of the logical shape: what it takes is nchw
  const auto placement = detail::placed_in_input(same, asked.preparation);
  ASSERT_TRUE(placement.has_value());
  EXPECT_EQ(placement->first, 0);
  const std::vector<std::int64_t> expected = {h * l * d, l * d, d, 1};
  for (int dim = 0; dim < 4; ++dim) EXPECT_EQ(placement->strides[dim], expected[static_cast<std::size_t>(dim)]);
}

}  // namespace
}  // namespace lamina::move_strides_test
