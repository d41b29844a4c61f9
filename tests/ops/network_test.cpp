// What a network computes when it is compiled.

#include "lamina/ops/network.h"

#include "lamina/layers/elementwise.h"
#include "support/expanded.h"
#include "support/file_test.h"

namespace lamina::test::network_test {
namespace {

TEST(Network, ConstantsThatAreComputedAreBoundedTogether) {
  const auto relu = std::make_shared<ReLU>();
  Network network;
  const int small = network.add_constant("small", Tensor::zeros({1024})),
            x = network.add_constant("x", Tensor::zeros({2048}));
  network.spend(std::size_t{1} << 30);
  std::vector<int> computed;
  for (int i = 0; i < 7; ++i) computed.push_back(network.add("y", relu, {x}));
  // Four times the 12 KiB that are there hold six of 8 KiB; the seventh is computed in each run.
  for (int i = 0; i < 7; ++i) EXPECT_EQ(network[computed[static_cast<std::size_t>(i)]].constant.defined(), i < 6) << i;
  EXPECT_TRUE(network[network.add("z", relu, {small})].constant.defined());  // as shapes are
  expect_error([&] { network.spend(8192); }, {"lists and constants that take", "for a network with 12288 bytes"});
  network.drop_constant(computed[0]);
  EXPECT_TRUE(network[network.add("y", relu, {x})].constant.defined());
}

TEST(Network, WhatOnlyConstantsMakeIsNoLargerThanTheyAllow) {
  const auto expand = [](std::int64_t extent) {  // 4 bytes to `extent` of them, as ConstantOfShape does
    Network network;
    const int one = network.add_constant("one", Tensor::zeros({1}));
    const int to = network.add_constant("to", Tensor::from(std::vector{extent}, {1}));
    Expansion expansion(network, Op("Expand"), "op", {one, to});
    detail::find_op("Expand")->expand(expansion);
  };
  expand(1000);
  expect_error([&] { expand(1'000'000'000); }, {"constants that take 4000000000 bytes", "a network with 12 bytes"});
}

TEST(Network, ListsOfPlacesAreBoundedTogether) {
  const Tensor pads = Tensor::from(std::vector<std::int64_t>{0, 8191}, {2});
  Network network;
  const int node = network.add_input("x", {1}, DType::f32), operand = network.add_constant("pads", pads);
  network.spend((std::size_t{1} << 30) - 8192);
  expect_error(
      [&] {
        Expansion expansion(network, Op("Pad"), "op", {node, operand});
        detail::find_op("Pad")->expand(expansion);
      },
      {"lists and constants that take 1073799168 bytes"});
}

}  // namespace
}  // namespace lamina::test::network_test
