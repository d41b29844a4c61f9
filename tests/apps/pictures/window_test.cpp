// One number of a map, and what it was made of.

#include "pictures/window_picture.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "pictures/maps.h"

namespace lamina::app::window_test {
namespace {

TEST(Windows, AddUpToTheNumber) {
  // Two filters of 2 x 3, stride 2, dilation 2, padding 1 above and 2 at the left, on 9 x 9 pixels.
  Conv2d conv({.in = 3, .out = 2, .kernel = {2, 3}, .stride = 2, .padding = {1, 2}, .dilation = 2});
  std::mt19937 random(7);
  const auto draw_values = [&](Tensor tensor) {
    for (float& value : tensor.values<float>()) value = static_cast<float>(random() % 2001) / 1000 - 1;
    return tensor;
  };
  conv.set_weight(draw_values(Tensor({2, 3, 2, 3})));
  conv.set_bias(draw_values(Tensor({2})));
  Graph graph;
  auto value = graph.input("input", {1, 3, 9, 9});
  value = graph.add("conv", conv, value);
  graph.output(graph.add("relu", ReLU(), value));
  const Tensor seen = draw_values(Tensor({1, 3, 9, 9})), maps = conv(seen);
  const ShownLayer layer = shown_layer(graph, "", "the test");
  ASSERT_TRUE(layer.field);
  EXPECT_EQ(*layer.field, (ReceptiveField{.size = {3, 5}, .stride = 2, .top = -1, .left = -2}));
  // The same by ONNX's names.
  using Numbers = std::vector<std::int64_t>;
  Graph onnx;
  auto image = onnx.input("input", {1, 3, 9, 9});
  const auto weight = onnx.add("w", Constant(conv.weight()), std::initializer_list<Value>{});
  const auto bias = onnx.add("b", Constant(conv.bias()), std::initializer_list<Value>{});
  auto y = onnx.add(
      "conv", Op("Conv", {{"strides", Numbers{2, 2}}, {"pads", Numbers{1, 2, 1, 2}}, {"dilations", Numbers{2, 2}}}),
      {image, weight, bias});
  onnx.output(onnx.add("relu", Op("Relu"), y));
  const ShownLayer same = shown_layer(onnx, "", "the test");
  EXPECT_EQ(same.name, "relu");
  EXPECT_EQ(same.field, layer.field);
  EXPECT_EQ(receptive_fields(onnx, onnx.shapes(1)).back(), layer.field);
  EXPECT_EQ(explain(same, seen, maps, 4, 4, 1).products, explain(layer, seen, maps, 4, 4, 1).products);
  EXPECT_EQ(explain(same, seen, maps, 4, 4, 1).bias, explain(layer, seen, maps, 4, 4, 1).bias);
  const auto map_value = [&](int map, int row, int column) {
    return FeatureMap::of(maps, map).values[static_cast<std::size_t>(row) * static_cast<std::size_t>(maps.shape()[3]) +
                                            static_cast<std::size_t>(column)];
  };
  for (int row = 0; row < maps.shape()[2]; ++row) {
    for (int column = 0; column < maps.shape()[3]; ++column) {
      for (int filter : {0, 1}) {
        const WindowSum w = explain(layer, seen, maps, 2 * column - 2 + 2.5, 2 * row - 1 + 1.5, filter);
        ASSERT_EQ((std::array{w.row, w.column, w.filter, w.top, w.left}),
                  (std::array{row, column, filter, 2 * row - 1, 2 * column - 2}));
        EXPECT_EQ(w.value, map_value(filter, row, column));
        EXPECT_NEAR(w.sum + static_cast<double>(w.bias), static_cast<double>(w.value), 1e-5);
        EXPECT_EQ(w.products.size(), 6u);
        const Image picture = draw(WindowPicture{
            "title", "sub", {9, 9, std::vector<std::uint8_t>(243, 90)}, layer, ChannelOrder::rgb, maps, w});
        EXPECT_GT(picture.width, 900);
      }
    }
  }
  const WindowSum strongest_there = explain(layer, seen, maps, -5, 100, -1);  // the corner is the nearest
  EXPECT_EQ(strongest_there.column, 0);
  EXPECT_EQ(strongest_there.row, maps.shape()[2] - 1);
  EXPECT_EQ(strongest_there.value,
            std::max(map_value(0, strongest_there.row, 0), map_value(1, strongest_there.row, 0)));
  // An input that something else was done to before is no photograph.
  Graph scaled;
  auto x = scaled.add("first", ReLU(), scaled.input("input", {1, 3, 9, 9}));
  scaled.output(scaled.add("conv", conv, x));
  EXPECT_THROW((void)explain(shown_layer(scaled, "", "the test"), seen, maps, 0, 0, 0), Error);
  EXPECT_THROW((void)explain(layer, seen, maps, 0, 0, 2), Error);
  EXPECT_THROW((void)explain(ShownLayer{.name = "x", .filters = {}}, seen, maps, 0, 0, 0), Error);
}

TEST(Windows, WhatAPlaceSeesThroughManyLayers) {
  Graph graph;
  auto x = graph.input("input", {1, 3, 64, 64});
  x = graph.add("a", Conv2d({.in = 3, .out = 4, .kernel = 3, .stride = 2, .padding = 1}), x);
  x = graph.add("pool", MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}), x);
  auto y = graph.add("b", Conv2d({.in = 4, .out = 4, .kernel = 5, .padding = 2}), x);
  y = graph.add("sum", Add(), {x, y});
  y = graph.add("all", AdaptiveAvgPool2d(1), y);
  graph.output(graph.add("after", ReLU(), y));
  const auto fields = receptive_fields(graph, graph.shapes(1));
  const auto field = [&](const char* name) {
    return fields[static_cast<std::size_t>(graph.find(name) - graph.nodes().data())];
  };
  EXPECT_EQ(field("a"), (ReceptiveField{.size = 3, .stride = 2, .top = -1, .left = -1}));
  EXPECT_EQ(field("pool"), (ReceptiveField{.size = 7, .stride = 4, .top = -3, .left = -3}));
  EXPECT_EQ(field("b"), (ReceptiveField{.size = 23, .stride = 4, .top = -11, .left = -11}));
  EXPECT_EQ(field("sum"), field("b"));
  EXPECT_FALSE(field("all") || field("after"));  // all of it
}

}  // namespace
}  // namespace lamina::app::window_test
