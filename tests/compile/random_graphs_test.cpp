// Graphs drawn at random: the plan gives what it gives with nothing fused, in the same shapes.

#include "support/random_graph.h"

namespace lamina::test::random_graphs_test {
namespace {

constexpr unsigned graphs = 3000, parts = 8;

class RandomGraphs : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Parts, RandomGraphs, testing::Range(0u, parts));

TEST_P(RandomGraphs, PlansGiveWhatTheyGiveUnfused) {
  for (unsigned seed = GetParam() * graphs / parts; seed < (GetParam() + 1) * graphs / parts; ++seed) {
    const RandomGraph drawing(seed, seed % 16 == 0 ? wide_extents() : RandomExtents());
    const Tensor input = random_tensor(drawing.input_shape, seed);
    Plan together = drawing.graph.compile({.threads = 1});
    Plan apart = drawing.graph.compile({.threads = 1, .fuse = false});
    const std::span<const Tensor> x = together.run(std::span(&input, 1)), y = apart.run(std::span(&input, 1));
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t o = 0; o < x.size(); ++o) {
      ASSERT_EQ(x[o].shape(), y[o].shape()) << "graph " << seed << ", output " << o;
      float largest = 1;
      for (const float v : y[o].values<float>()) largest = std::max(largest, std::abs(v));
      for (std::size_t i = 0; i < x[o].values<float>().size(); ++i) {
        ASSERT_NEAR(x[o].values<float>()[i], y[o].values<float>()[i], 1e-3f * largest)
            << "graph " << seed << ", output " << o << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::random_graphs_test
