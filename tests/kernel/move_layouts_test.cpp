// Moves between images that are stored channels last: the elements that the same move takes in row-major order.

#include "lamina/kernel/rules/move/layouts.h"

#include <gtest/gtest.h>

#include "kernel/walked.h"
#include "lamina/kernel/rules/move/plan.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina::test::move_layouts_test {
namespace {

using Axis = MoveProblem::Axis;
using Places = std::vector<std::int64_t>;

/// For each logical element of a view its place in memory.
Places memory_of(const View& view) {
  const detail::Strides strides = detail::strides_of(view);
  MoveProblem walk;
  for (std::size_t d = 0; d < view.shape.rank(); ++d)
    walk.axes.push_back({view.shape[static_cast<int>(d)], strides[d]});
  return walked(walk);
}

void expect_same(const MoveProblem& problem, const Shape& from, const Shape& to, const char* what) {
  const Places expected = walked(problem);  // by logical element, logical elements
  for (const Layout in : {Layout::nchw, Layout::nhwc}) {
    for (const Layout out : {Layout::nchw, Layout::nhwc}) {
      const View input = {.shape = from, .format = {DType::f32, in}},
                 output = {.shape = to, .format = {DType::f32, out}};
      const auto turned = detail::in_memory_order(problem, input, output);
      ASSERT_TRUE(turned.has_value()) << what;
      const Places found = walked(*turned), read = memory_of(input), written = memory_of(output);
      ASSERT_EQ(found.size(), expected.size()) << what;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::int64_t place = expected[i] < 0 ? -1 : read[static_cast<std::size_t>(expected[i])];
        ASSERT_EQ(found[static_cast<std::size_t>(written[i])], place) << what << ", element " << i;
      }
    }
  }
}

TEST(MoveLayouts, EveryKindOfMove) {
  const Shape image = {2, 6, 3, 5};
  expect_same({.axes = {{2, 90}, {6, 15}, {3, 5}, {5, 1}}}, image, image, "identity");
  expect_same({.axes = {{180, 1}}}, image, image, "identity, one axis");
  expect_same({.axes = {{2, 90}, {3, 15}, {2, 45}, {15, 1}}}, image, image, "channel shuffle");
  expect_same({.axes = {{2, 90}, {3, 5}, {5, 1}, {6, 15}}}, image, {2, 3, 5, 6}, "channels to the end");
  expect_same({.axes = {{2, 90}, {5, 6}, {6, 1}, {3, 30}}}, {2, 3, 5, 6}, {2, 5, 6, 3}, "another permutation");
  expect_same({.axes = {{2, 90}, {2, 0, {15, 45}}, {3, 5}, {5, 1}}}, image, {2, 2, 3, 5}, "picked channels");
  expect_same({.axes = {{2, 90}, {6, 15}, {3, 5}, {5, 0, {4, 3, 2, 1, 0}}}}, image, image, "flip");
  expect_same({.axes = {{2, 90}, {6, 15}, {5, 0, {-1, 0, 5, 10, -1}}, {7, 0, {-1, 0, 1, 2, 3, 4, -1}}}}, image,
              {2, 6, 5, 7}, "padding");
  expect_same({.axes = {{2, 90}, {6, 15}, {3, 5}, {2, 0}, {5, 1}, {2, 0}}}, image, {2, 6, 6, 10}, "twice the size");
  // [2, 6, 4, 4] in blocks of 2 x 2: [2, 24, 2, 2].
  expect_same({.axes = {{2, 96}, {2, 4}, {2, 1}, {6, 16}, {2, 8}, {2, 2}}}, {2, 6, 4, 4}, {2, 24, 2, 2},
              "space to depth");
  expect_same({.axes = {{1, 0, {-1}}, {2, 90}, {6, 15}, {15, 1}}}, image, image, "all outside");
}

TEST(MoveLayouts, WhatCannotBeSaidIsRefused) {
  const View last = {.shape = {2, 6, 3, 5}, .format = {DType::f32, Layout::nhwc}};
  const View rows = {.shape = {2, 6, 3, 5}};
  // A diagonal carries from column to row, and 9 x 20 elements are no whole rows.
  EXPECT_FALSE(detail::in_memory_order({.axes = {{2, 90}, {6, 15}, {3, 6}, {5, 1}}}, last, rows).has_value());
  EXPECT_FALSE(detail::in_memory_order({.axes = {{9, 20}, {20, 1}}}, rows, last).has_value());
  EXPECT_FALSE(
      detail::is_movable({.axes = {{9, 20}, {20, 1}}}, {.inputs = {&rows, 1}, .outputs = {&last, 1}, .device = {}}));
  EXPECT_TRUE(
      detail::is_movable({.axes = {{9, 20}, {20, 1}}}, {.inputs = {&rows, 1}, .outputs = {&rows, 1}, .device = {}}));
}

TEST(MoveLayouts, ChannelsToTheEndOfAnImageStoredSoIsNoMove) {
  const View last = {.shape = {2, 6, 3, 5}, .format = {DType::f32, Layout::nhwc}}, rows = {.shape = {2, 3, 5, 6}};
  const MoveProblem permute = {.axes = {{2, 90}, {3, 5}, {5, 1}, {6, 15}}};
  EXPECT_TRUE(detail::is_still(permute, {.inputs = {&last, 1}, .outputs = {&rows, 1}, .device = {}}));
  const View planes = {.shape = {2, 6, 3, 5}};
  EXPECT_FALSE(detail::is_still(permute, {.inputs = {&planes, 1}, .outputs = {&rows, 1}, .device = {}}));
}

}  // namespace
}  // namespace lamina::test::move_layouts_test
