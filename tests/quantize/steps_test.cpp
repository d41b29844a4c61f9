#include <gtest/gtest.h>

#include "lamina/ops/op.h"
#include "lamina/quantize/draft.h"
#include "lamina/quantize/quantizer.h"
#include "quantize/networks.h"

namespace lamina::steps_test {
namespace {

using test::conv, test::distance, test::drawn, test::samples;

/// As ConvNeXt has it, by PyTorch's exporter: rows of channels, a GELU in steps, factors of channels behind the turn
/// back.
Model turned_network(bool half_first) {
  Model model;
  Graph& g = model.graph;
  const auto op = [&](const char* name, const char* of, Attributes attributes, std::vector<Value> inputs) {
    return g.add(name, std::make_shared<Op>(of, std::move(attributes)), inputs);
  };
  const auto constant = [&](const char* name, Tensor value) {
    return g.add(name, std::make_shared<Constant>(std::move(value)), {});
  };
  const auto number = [&](const char* name, float value) {
    return constant(name, Tensor::from(std::vector<float>{value}, Shape{}));
  };
  const auto turn = [&](const char* name, std::vector<std::int64_t> by, Value of) {
    return op(name, "Transpose", {{"perm", std::move(by)}}, {of});
  };
  const Value first =
      g.add("first", conv({.in = 3, .out = 32, .kernel = 3, .padding = 1}, 1), g.input("x", {1, 3, 12, 12}));
  const Value rows = turn("rows", {0, 2, 3, 1}, first);
  const Value wide = op("wide_product", "MatMul", {}, {rows, constant("wide_weight", drawn({32, 64}, 3, 0.2f))});
  const Value bias = op("shared_bias", "Identity", {}, {constant("wide_bias", drawn({64}, 4, 0.1f))});
  const Value x = op("wide", "Add", {}, {bias, wide});
  const Value erf = op("erf", "Erf", {}, {op("scaled", "Div", {}, {x, number("root", 1.41421356f)})});
  const Value grown = op("grown", "Add", {}, {erf, number("one", 1)}), half = number("half", 0.5f);
  const Value y = half_first ? op("gelu", "Mul", {}, {op("halved", "Mul", {}, {x, half}), grown})
                             : op("gelu", "Mul", {}, {op("twice", "Mul", {}, {x, grown}), half});
  const Value narrow = op("narrow_product", "MatMul", {}, {y, constant("narrow_weight", drawn({64, 32}, 5, 0.2f))});
  const Value back =
      turn("back", {0, 3, 1, 2}, op("narrow", "Add", {}, {narrow, constant("narrow_bias", drawn({32}, 6))}));
  const Value factored = op("factored", "Mul", {}, {constant("factors", drawn({32, 1, 1}, 7)), back});
  g.output(op("sum", "Add", {}, {factored, first}));
  return model;
}

TEST(Quantize, AGeluInStepsIsATableAndFactorsBehindATurnStayInEightBits) {
  for (const bool half_first : {false, true}) {
    const Model model = turned_network(half_first);
    const Graph drafted = detail::Draft(model.graph).graph();
    EXPECT_LT(distance(drafted, model.graph, samples(1)[0]), 1e-6);
    EXPECT_EQ(drafted.find("gelu")->module->op(), "Gelu");
    EXPECT_EQ(drafted.find("erf"), nullptr);
    const Quantized quantized = quantize(model, samples(12));
    EXPECT_EQ(quantized.layers.size(), 3u);
    for (const QuantizedLayer& layer : quantized.layers) EXPECT_TRUE(layer.quantized) << layer.name;
    EXPECT_LT(quantized.error, 0.05);
    const std::string plan = quantized.model.graph.plan_summary();
    EXPECT_EQ(plan.find("_dequantized"), plan.npos) << plan;
    // Some factors are negative: the fused plan is near the same operations by themselves.
    Plan parts = quantized.model.graph.compile({.fuse = false}), whole = quantized.model.graph.compile();
    const Tensor want = parts.run(samples(1)[0]).clone(), got = whole.run(samples(1)[0]).clone();
    for (std::size_t i = 0; i < want.values<float>().size(); ++i)
      ASSERT_NEAR(got.values<float>()[i], want.values<float>()[i], 1e-4) << i;
  }
}

}  // namespace
}  // namespace lamina::steps_test
