// A residual sum is written over the residual where nobody reads that any more.

#include <algorithm>

#include "lamina/layers/elementwise.h"
#include "support/networks.h"

namespace lamina::in_place_test {
namespace {

constexpr int side = 10, wide = 32;

/// Two residual blocks; `again`: what the second one adds to is read once more behind it.
Graph blocks(bool again) {
  Graph g;
  Value x =
      g.add("first", Conv2d({.in = 3, .out = wide, .kernel = 3, .padding = 1}), g.input("x", {batch, 3, side, side}));
  Value before;
  for (const std::string name : {"a", "b"}) {
    before = x;
    const Value few = g.add(name + "_few", Conv2d({.in = wide, .out = 16, .kernel = 1}), x);
    const Value many = g.add(name + "_many", Conv2d({.in = 16, .out = wide, .kernel = 3, .padding = 1}),
                             g.add(name + "_relu", ReLU(), few));
    x = g.add(name + "_out", ReLU(), g.add(name + "_sum", Add(), {many, x}));
  }
  if (again) x = g.add("sum", Add(), {g.add("more", Conv2d({.in = wide, .out = wide, .kernel = 1}), x), before});
  g.output(g.add("last", Conv2d({.in = wide, .out = 2, .kernel = 1}), x));
  test::randomize(g);
  return g;
}

TEST(InPlace, ResidualBlocksHaveOneWideMap) {
  const std::size_t map = std::size_t{4} * wide * side * side;
  EXPECT_LT(blocks(false).compile({.threads = 1}).memory().activations, 2 * map);
  EXPECT_GE(blocks(true).compile({.threads = 1}).memory().activations, 2 * map);
}

TEST(InPlace, NothingIsOverwrittenThatIsStillRead) {
  const Tensor x = test::random_tensor({2, 3, side, side}, 3);
  for (const bool again : {false, true}) {
    const Graph g = blocks(again);
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const auto run = [&](bool keep_all) {
        Plan plan = g.compile({.batch = 2, .precision = precision, .threads = 2, .keep_all = keep_all});
        return plan.run({&x, 1})[0].clone();
      };
      const Tensor over = run(false), apart = run(true);
      double largest = 0;
      for (const float y : apart.values<float>()) largest = std::max(largest, std::abs(double{y}));
      const double tolerance = largest * (precision == Precision::fp32 ? 1e-5 : 3e-2);
      for (std::size_t i = 0; i < over.values<float>().size(); ++i) {
        ASSERT_NEAR(over.values<float>()[i], apart.values<float>()[i], tolerance) << i;
      }
    }
  }
}

}  // namespace
}  // namespace lamina::in_place_test
