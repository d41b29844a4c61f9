// Whether a Plan may be given fewer images: not where an output's row is made of several.

#include <functional>

#include "compile/fused.h"
#include "lamina/compile/program.h"
#include "lamina/graph/graph.h"
#include "lamina/graph/resolve.h"
#include "lamina/ops/op.h"
#include "support/networks.h"
#include "support/plans/golden_plans.h"

namespace lamina::test::images_test {
namespace {

using Ints = std::vector<std::int64_t>;

struct Case {
  const char* name;
  bool apart;
  std::function<Value(Graph&, Value)> y;  // of x [batch, 4, 6]
};

constexpr std::int64_t zero = 0, one = 1, two = 2;

Value random(Graph& g, const Shape& shape) { return constant(g, random_tensor(shape, 3)); }
Value attention(Graph& g, Value q, Value k, Value v) {
  const Value scores = op(g, "MatMul", {q, transposed(g, k, {0, 2, 1})});
  return op(g, "MatMul", {op(g, "Softmax", {scores}, {{"axis", std::int64_t{-1}}}), v});
}

const Case cases[] = {
    {"softmax of columns", true,
     [](Graph& g, Value x) {
       return op(g, "Softmax", {x}, {{"axis", one}});
     }},
    {"softmax of images", false,
     [](Graph& g, Value x) {
       return op(g, "Softmax", {x}, {{"axis", zero}});
     }},
    {"less the mean of images", false,
     [](Graph& g, Value x) {
       return op(g, "Sub", {x, op(g, "ReduceMean", {x, integers(g, {0})})});
     }},
    {"less the mean of each", true,
     [](Graph& g, Value x) {
       return op(g, "Sub", {x, op(g, "ReduceMean", {x, integers(g, {1, 2})})});
     }},
    {"sums from the last image on", false,
     [](Graph& g, Value x) {
       return op(g, "CumSum", {x, constant(g, Tensor::from(Ints{0}, Shape{}))}, {{"reverse", one}});
     }},
    {"sums within each", true,
     [](Graph& g, Value x) {
       return op(g, "CumSum", {x, constant(g, Tensor::from(Ints{1}, Shape{}))}, {{"reverse", one}});
     }},
    {"images in another place", true,
     [](Graph& g, Value x) {
       const Value y = op(g, "Softmax", {transposed(g, x, {1, 0, 2})}, {{"axis", zero}});
       return op(g, "Relu", {transposed(g, y, {1, 0, 2})});
     }},
    {"images left in another place", false,
     [](Graph& g, Value x) {
       return op(g, "Relu", {reshaped(g, transposed(g, x, {1, 0, 2}), {-1, 4, 6})});
     }},
    {"one number of all", false,
     [](Graph& g, Value x) {
       return op(g, "ReduceSum", {x, integers(g, {0, 1, 2})}, {{"keepdims", zero}});
     }},
    {"a norm of rows", true,
     [](Graph& g, Value x) {
       return op(g, "LayerNormalization", {x, random(g, {6}), random(g, {6})}, {{"axis", std::int64_t{-1}}});
     }},
    {"a Linear", true,
     [](Graph& g, Value x) {
       return op(g, "MatMul", {x, random(g, {6, 5})});
     }},
    {"rows of all images", true,
     [](Graph& g, Value x) {
       return reshaped(g, op(g, "MatMul", {reshaped(g, x, {-1, 6}), random(g, {6, 3})}), {-1, 4, 3});
     }},
    {"attention within images", true, [](Graph& g, Value x) { return attention(g, x, x, x); }},
    {"attention among images", false,
     [](Graph& g, Value x) {
       const Value y = transposed(g, x, {1, 0, 2});
       return transposed(g, attention(g, y, y, y), {1, 0, 2});
     }},
    {"heads among images", true,
     [](Graph& g, Value x) {
       const auto heads = [&](Value of) {
         return reshaped(g, transposed(g, reshaped(g, of, {-1, 4, 2, 3}), {0, 2, 1, 3}), {-1, 4, 3});
       };
       const Value y = reshaped(g, attention(g, heads(x), heads(x), heads(x)), {-1, 2, 4, 3});
       return reshaped(g, transposed(g, y, {0, 2, 1, 3}), {-1, 4, 6});
     }},
    {"each times all", false,
     [](Graph& g, Value x) {
       const Value rows = op(g, "ReduceMean", {x, integers(g, {1})}, {{"keepdims", zero}});
       return op(g, "MatMul", {op(g, "Softmax", {op(g, "MatMul", {rows, transposed(g, rows, {1, 0})})}), rows});
     }},
    {"a token in front", true,
     [](Graph& g, Value x) {
       const Value shape =
           op(g, "Concat",
              {op(g, "Slice", {op(g, "Shape", {x}), integers(g, {0}), integers(g, {1})}), integers(g, {1, 6})},
              {{"axis", zero}});
       return op(g, "Concat", {op(g, "Expand", {random(g, {1, 1, 6}), shape}), x}, {{"axis", one}});
     }},
    {"windows", true,
     [](Graph& g, Value x) {
       const Value windows = reshaped(g, transposed(g, reshaped(g, x, {-1, 2, 2, 3, 2}), {0, 1, 3, 2, 4}), {-1, 4});
       return reshaped(g, op(g, "Softmax", {windows}, {{"axis", one}}), {-1, 4, 6});
     }},
    {"the first image in all", false,
     [](Graph& g, Value x) {
       return op(g, "Add", {x, op(g, "Slice", {x, integers(g, {0}), integers(g, {1}), integers(g, {0})})});
     }},
    {"flipped within", true,
     [](Graph& g, Value x) {
       return op(g, "Slice", {x, integers(g, {-1}), integers(g, {-5}), integers(g, {1}), integers(g, {-1})});
     }},
    {"flipped among", false,
     [](Graph& g, Value x) {
       return op(g, "Slice", {x, integers(g, {-1}), integers(g, {-1000}), integers(g, {0}), integers(g, {-1})});
     }},
    {"looked up", true,
     [](Graph& g, Value x) {
       const Value places = op(g, "ArgMax", {x}, {{"axis", two}, {"keepdims", zero}});
       return op(g, "Gather", {random(g, {6, 5}), places}, {{"axis", zero}});
     }},
    {"taken along rows", true,
     [](Graph& g, Value x) {
       return op(g, "Gather", {x, integers(g, {5, 0, 0})}, {{"axis", two}});
     }},
    {"the largest of images", false,
     [](Graph& g, Value x) {
       const Value places = op(g, "ArgMax", {x}, {{"axis", zero}});
       return op(g, "Add", {x, op(g, "Cast", {places}, {{"to", one}})});
     }},
    {"a convolution of rows as pixels", true,
     [](Graph& g, Value x) {
       const Value y =
           op(g, "Conv", {reshaped(g, x, {-1, 1, 4, 6}), random(g, {2, 1, 3, 3})}, {{"pads", Ints{1, 1, 1, 1}}});
       return op(g, "Resize", {y, Value(), constant(g, Tensor::from(std::vector<float>{1, 1, 2, 2}, {4}))});
     }},
    {"a sequence of images", false,
     [](Graph& g, Value x) {
       const Value y = op(g, "LSTM", {x, random(g, {2, 12, 6}), random(g, {2, 12, 3})},
                          {{"hidden_size", std::int64_t{3}}, {"direction", std::string("bidirectional")}});
       return op(g, "Relu", {y});
     }},
    {"a sequence in each", true, [](Graph& g, Value x) {
       const Value y = op(g, "LSTM", {transposed(g, x, {1, 0, 2}), random(g, {2, 12, 6}), random(g, {2, 12, 3})},
                          {{"hidden_size", std::int64_t{3}}, {"direction", std::string("bidirectional")}});
       return transposed(g, y, {2, 0, 1, 3});
     }}};

TEST(ImagesApart, AreFoundThroughWhatMovesThem) {
  constexpr std::int64_t images = 4, fewer = 3;
  const Tensor x = random_tensor({images, 4, 6}, 7), some = x.slice(0, fewer);
  for (const Case& c : cases) {
    Graph graph;
    graph.output(c.y(graph, graph.input("x", {batch, 4, 6})));
    Plan all = graph.compile({.batch = images}), few = graph.compile({.batch = fewer});
    EXPECT_EQ(all.batched(), c.apart) << c.name;
    const Tensor expected = few.run(some).clone();
    if (all.batched()) expect_close(all.run(some), expected);
    // The other way round: rows are those of fewer images only if images are apart.
    if (c.apart) expect_close(all.run(x).slice(0, fewer), expected);
  }
}

/// Whether outputs are apart, found without a plan.
std::vector<bool> found_apart(const Graph& graph) {
  const CompileOptions options = {.batch = 3};
  detail::Program program = detail::lower(graph, detail::resolve_batched(graph, options, {}), options);
  detail::keep_images_apart(program, options);
  return program.output_batched;
}

/// A layer of a user's is taken at its word.
class Doubled final : public Module {
 public:
  std::string_view op() const override { return "test.doubled"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation&) const override { return false; }
  std::unique_ptr<Operator> prepare(const Preparation&) const override { return nullptr; }
};

TEST(ImagesApart, OfALayerThatSaysNothing) {
  Graph graph;
  graph.output(graph.add("y", Doubled(), graph.input("x", {batch, 4})));
  EXPECT_EQ(found_apart(graph), std::vector<bool>{true});
}

class ImagesOf : public testing::TestWithParam<std::string_view> {};

TEST_P(ImagesOf, NamedNetworksAreApart) {
  const std::vector<bool> apart = found_apart(structured_network(std::string(GetParam())));
  EXPECT_EQ(apart, std::vector<bool>(apart.size(), true));
}

INSTANTIATE_TEST_SUITE_P(Networks, ImagesOf, testing::ValuesIn(structures),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace lamina::test::images_test
