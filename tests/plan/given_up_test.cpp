// Plans of graphs that are given up: nothing of their weights is left but what the plan has packed, or uses.

#include <algorithm>

#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/views.h"
#include "lamina/ops/op.h"
#include "support/networks.h"

namespace lamina::given_up_test {
namespace {

/// A tensor, and who says whether its memory is still somebody's.
struct Watched {
  std::shared_ptr<Tensor> memory;
  std::weak_ptr<Tensor> watch;

  explicit Watched(const Shape& shape, unsigned seed)
      : memory(std::make_shared<Tensor>(test::random_tensor(shape, seed))), watch(memory) {}
  /// The one view of it; it goes with the last copy of that.
  Tensor give() {
    Tensor view = Tensor::borrow(memory->raw(), memory->shape(), memory->dtype(), Device::cpu(), memory);
    memory.reset();
    return view;
  }
};

/// A convolution, a product with a constant matrix that is turned when it is compiled, and a linear layer, whose
/// weights a CPU uses where they lie.
Graph network(Watched& conv, Watched& matrix, Watched& linear) {
  Graph g;
  const Value x = g.input("x", {batch, 3, 4, 4});
  Conv2d convolution({.in = 3, .out = 16, .kernel = 3, .padding = 1, .bias = false});
  convolution.set_weight(conv.give());
  const Value rows = g.add("rows", Flatten(), g.add("relu", ReLU(), g.add("conv", std::move(convolution), x)));
  const Value constant = g.add("matrix", Constant(matrix.give()), std::initializer_list<Value>{});
  const Value product = g.add("product", Op("MatMul"), {rows, constant});
  Linear last({.in = 24, .out = 5, .bias = false});
  last.set_parameter("weight", linear.give());
  g.output(g.add("last", std::move(last), product));
  return g;
}

TEST(PlanOfAGraphThatIsGivenUp, HoldsItsWeightsOnceAndComputesTheSame) {
  for (const std::int64_t images : {1, 3}) {
    const auto weights = [] {
      return std::vector{Watched({16, 3, 3, 3}, 1), Watched({256, 24}, 2), Watched({5, 24}, 3)};
    };
    std::vector<Watched> kept = weights(), given = weights();
    const CompileOptions options = {.batch = images, .threads = 2};
    const Graph graph = network(kept[0], kept[1], kept[2]);
    Plan plan = graph.compile(options);
    Plan other = network(given[0], given[1], given[2]).compile(options);  // of a temporary
    for (const Watched& weight : kept) EXPECT_FALSE(weight.watch.expired());
    EXPECT_TRUE(given[0].watch.expired());   // packed
    EXPECT_TRUE(given[1].watch.expired());   // turned
    EXPECT_FALSE(given[2].watch.expired());  // in use
    EXPECT_EQ(other.memory().parameters, plan.memory().parameters + 4 * 5 * 24);

    const Tensor x = test::random_tensor({images, 3, 4, 4}, 4);
    const Tensor expected = plan.run(x).clone(), found = other.run(x).clone();
    EXPECT_TRUE(std::ranges::equal(found.values<float>(), expected.values<float>()));
    EXPECT_EQ(plan.output_shapes()[0], other.output_shapes()[0]);
  }
}

}  // namespace
}  // namespace lamina::given_up_test
