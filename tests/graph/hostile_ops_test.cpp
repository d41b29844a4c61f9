// As hostile_sizes_test.cpp, for the ops that graphs have by name: whatever number stands in an attribute, an extent or
// a constant operand, the network runs or is refused with an Error, in little time and memory.

#include <gtest/gtest.h>

#include <chrono>

#include "lamina/graph/graph.h"
#include "lamina/ops/op.h"
#include "lamina/ops/table.h"
#include "support/layer_cases.h"

namespace lamina::hostile_ops_test {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t int_max = std::numeric_limits<int>::max(), int64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t sizes[] = {
    0, 1, -1, 3, int_max / 4, int_max, -int_max - 1, int_max + 1, int64_max / 2, int64_max, -int64_max, -int64_max - 1};

/// An input of the network, f32; or, with values, a constant of i64; or, `known`, one of f32.
struct Operand {
  Numbers shape;
  Numbers values = {};
  bool known = false;
};

struct Case {
  std::string op;
  Attributes attributes;
  std::vector<Operand> operands;
};

Operand x(Numbers shape) { return {std::move(shape), {}, false}; }
Operand weights(Numbers shape) { return {std::move(shape), {}, true}; }
Operand numbers(Numbers values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {{count}, std::move(values), true};
}
Attribute one(std::int64_t value) { return value; }
Attribute list(Numbers values) { return values; }

std::vector<Case> cases() {
  const Operand image = x({2, 4, 6, 5});
  const Attributes window = {{"kernel_shape", list({3, 2})}, {"strides", list({2, 1})}, {"pads", list({1, 0, 1, 1})}};
  Attributes dilated = window;
  dilated.emplace_back("dilations", list({1, 2}));
  Attributes dilated_twice = dilated;
  dilated_twice.emplace_back("ceil_mode", one(1));
  std::vector<Case> all = {
      {"Conv",
       {{"strides", list({2, 1})}, {"pads", list({1, 0, 1, 1})}, {"dilations", list({1, 2})}, {"group", one(2)}},
       {image, weights({6, 2, 3, 2})}},
      {"Conv",
       {{"strides", list({1, 1, 1})}, {"pads", list({1, 0, 1, 1, 0, 0})}, {"dilations", list({1, 1, 1})}},
       {x({1, 2, 4, 4, 3}), weights({2, 2, 2, 2, 2})}},
      {"ConvTranspose",
       {{"strides", list({2, 1})},
        {"pads", list({1, 0, 1, 1})},
        {"dilations", list({1, 2})},
        {"group", one(2)},
        {"output_padding", list({1, 0})}},
       {image, weights({4, 3, 3, 2})}},
      {"ConvTranspose", {{"strides", list({2, 2})}, {"output_shape", list({12, 10})}}, {image, weights({4, 3, 3, 2})}},
      {"MaxPool", dilated_twice, {image}},
      {"AveragePool", dilated_twice, {image}},
      {"LpPool", {{"kernel_shape", list({2, 2})}, {"p", one(2)}, {"dilations", list({1, 1})}}, {image}},
      {"AdaptiveAvgPool", {{"output_size", list({3, 2})}}, {image}},
      {"AdaptiveMaxPool", {{"output_size", list({3, 2})}}, {image}},
      {"AffineGrid", {}, {x({2, 2, 3}), numbers({2, 1, 3, 4})}},
      {"GridSample", {}, {image, x({2, 3, 3, 2})}},
      {"Compress", {{"axis", one(1)}}, {image, numbers({1, 0, 1})}},
      {"Gather", {{"axis", one(1)}}, {image, numbers({1, 3, 0})}},
      {"GatherElements", {{"axis", one(0)}}, {x({4}), numbers({1, 3, 0})}},
      {"GatherND", {{"batch_dims", one(0)}}, {x({4, 3}), numbers({1, 2})}},
      {"OneHot", {{"axis", one(-1)}}, {numbers({1, 0, 2}), numbers({4}), numbers({0, 1})}},
      {"ScatterElements", {{"axis", one(0)}}, {x({4}), numbers({1, 3}), x({2})}},
      {"ScatterND", {}, {x({4}), numbers({1}), x({})}},
      {"TopK", {{"axis", one(-1)}}, {image, numbers({2})}},
      {"CenterCropPad", {{"axes", list({2, 3})}}, {image, numbers({4, 8})}},
      {"Concat", {{"axis", one(1)}}, {image, image}},
      {"DepthToSpace", {{"blocksize", one(2)}}, {image}},
      {"SpaceToDepth", {{"blocksize", one(2)}}, {x({1, 2, 4, 6})}},
      {"Expand", {}, {x({4, 1}), numbers({2, 4, 3})}},
      {"Pad", {}, {x({3, 4}), numbers({1, 0, 2, -1})}},
      {"Pad", {{"mode", std::string("reflect")}}, {x({3, 4}), numbers({1, 0, 2, 1})}},
      {"Pad", {{"mode", std::string("wrap")}}, {x({3, 4}), numbers({1, 2}), {}, numbers({1})}},
      {"Roll", {{"shifts", list({1, -2})}, {"dims", list({0, 1})}}, {x({3, 4})}},
      {"Slice", {}, {image, numbers({1, 0}), numbers({4, 5}), numbers({2, 3}), numbers({2, 1})}},
      {"Slice", {}, {image, numbers({-1}), numbers({0}), numbers({1}), numbers({-1})}},
      {"Split", {{"axis", one(1)}, {"num_outputs", one(2)}, {"output", one(1)}}, {image}},
      {"Split", {{"axis", one(1)}, {"output", one(1)}}, {image, numbers({1, 3})}},
      {"Tile", {}, {x({2, 3}), numbers({2, 2})}},
      {"Transpose", {{"perm", list({0, 2, 1, 3})}}, {image}},
      {"Trilu", {}, {x({3, 4}), numbers({1})}},
      {"GroupNormalization", {{"num_groups", one(2)}}, {image, weights({4}), weights({4})}},
      {"LRN", {{"size", one(3)}}, {image}},
      {"LayerNormalization", {{"axis", one(2)}}, {image, weights({6, 5})}},
      {"LpNormalization", {{"axis", one(1)}, {"p", one(2)}}, {image}},
      {"RMSNormalization", {{"axis", one(3)}}, {image, weights({5})}},
      {"MeanVarianceNormalization", {{"axes", list({0, 2})}}, {image}},
      {"Softmax", {{"axis", one(1)}}, {image}},
      {"Clip", {}, {image, numbers({0}), numbers({1})}},
      {"Cast", {{"to", one(7)}}, {image}},
      {"Attention", {{"q_num_heads", one(2)}, {"kv_num_heads", one(1)}}, {x({1, 3, 8}), x({1, 4, 4}), x({1, 4, 4})}},
      {"Gemm", {{"transB", one(1)}}, {x({2, 3}), weights({4, 3})}},
      {"MatMul", {}, {x({2, 3, 4}), x({4, 5})}},
      {"Einsum", {{"equation", std::string("ij,jk->ik")}}, {x({2, 3}), x({3, 4})}},
      {"ArgMax", {{"axis", one(1)}}, {image}},
      {"CumSum", {}, {image, numbers({1})}},
      {"GlobalLpPool", {{"p", one(2)}}, {image}},
      {"ReduceMean", {}, {image, numbers({1, -1})}},
      {"Resize", {}, {image, {}, {}, numbers({2, 4, 9, 3})}},
      {"Resize", {{"mode", std::string("cubic")}, {"axes", list({2, 3})}}, {image, {}, {}, numbers({9, 3})}},
      {"Resize", {{"axes", list({2, 3})}}, {image, {}, numbers({2, 3})}},
      {"Resize",
       {{"axes", list({2, 3})}, {"keep_aspect_ratio_policy", std::string("not_larger")}},
       {image, {}, {}, numbers({9, 3})}},
      {"BitCast", {{"to", one(6)}}, {image}},
      {"CausalConvWithState", {}, {x({1, 2, 3}), weights({2, 1, 2})}},
      {"ConstantOfShape", {}, {numbers({2, 3})}},
      {"DFT", {{"onesided", one(1)}}, {x({2, 6, 1}), numbers({4}), numbers({1})}},
      {"HannWindow", {{"output_datatype", one(1)}}, {numbers({8})}},
      {"ReverseSequence", {{"batch_axis", one(1)}, {"time_axis", one(0)}}, {x({3, 2}), numbers({2, 3})}},
      {"RotaryEmbedding",
       {{"num_heads", one(2)}, {"rotary_embedding_dim", one(2)}},
       {x({1, 2, 4}), x({1, 2, 1}), x({1, 2, 1})}},
      {"STFT", {}, {x({1, 16}), numbers({3}), {}, numbers({4})}},
      {"TensorScatter", {{"axis", one(1)}}, {x({2, 4, 3}), x({2, 2, 3}), numbers({1, 0})}},
      {"EyeLike", {{"k", one(1)}}, {x({3, 4})}},
      {"Flatten", {{"axis", one(2)}}, {image}},
      {"Range", {}, {numbers({1}), numbers({9}), numbers({2})}},
      {"Reshape", {}, {image, numbers({2, -1, 10})}},
      {"Reshape", {}, {image, numbers({0, 0, 30})}},
      {"Squeeze", {}, {x({2, 1, 3}), numbers({1})}},
      {"Unsqueeze", {}, {x({2, 3}), numbers({0, -1})}},
  };
  // The others work on what they are given: their extents are what may be large.
  for (const detail::OpRow& row : detail::all_ops()) {
    const std::string op(row.name);
    if (std::ranges::any_of(all, [&](const Case& c) { return c.op == op; })) continue;
    all.push_back({op, {}, {image}});
    all.push_back({op, {}, {image, image}});
  }
  return all;
}

/// How many operators ran.
int run(const Case& c) {
  try {
    Graph graph;
    std::vector<Value> values;
    std::vector<Tensor> inputs;
    bool small = true;
    for (const Operand& operand : c.operands) {
      const std::string name = "x" + std::to_string(values.size());
      if (operand.shape.empty() && operand.values.empty() && !operand.known && c.op != "ScatterND") {
        values.push_back({});
        continue;
      }
      const Shape shape{std::span<const std::int64_t>(operand.shape)};
      if (!operand.known) {
        values.push_back(graph.input(name, shape));
        small = small && shape.numel() <= (1 << 16);
        if (small) inputs.push_back(test::drawn(shape, 3));
        continue;
      }
      if (shape.numel() > (1 << 16)) return 0;
      Tensor value = operand.values.empty() ? test::drawn(shape, 5) : Tensor::from(operand.values, shape);
      values.push_back(graph.add(name, std::make_shared<Constant>(std::move(value)), std::span<const Value>{}));
    }
    graph.output(graph.add("node", std::make_shared<Op>(c.op, c.attributes), values));
    const CompileOptions options = {.threads = 1};
    if (graph.plan_memory(options).total() > (1 << 24) || !small) return 0;
    Plan plan = graph.compile(options);
    (void)plan.run(inputs);
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

std::string text_of(const Case& c) {
  std::string text = c.op + ' ' + to_string(c.attributes);
  for (const Operand& operand : c.operands) {
    text += " [";
    for (const std::int64_t extent : operand.shape) text += std::to_string(extent) + ' ';
    text += "](";
    for (const std::int64_t value : operand.values) text += std::to_string(value) + ' ';
    text += ")";
  }
  return text;
}

/// Runs `c` with each of `sizes` in the place of `number`, which is a part of `c`.
void with_each_size(const Case& c, std::int64_t& number) {
  const std::int64_t was = number;
  for (const std::int64_t size : sizes) {
    number = size;
    const auto start = std::chrono::steady_clock::now();
    try {
      (void)run(c);
    } catch (const std::exception& error) {
      ADD_FAILURE() << text_of(c) << ": not an Error: " << error.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3)) << text_of(c);
  }
  number = was;
}

TEST(HostileOps, RunOrAreRefused) {
  int ran = 0;
  for (Case& c : cases()) {
    const int as_it_is = run(c);
    ran += as_it_is;
    if (!c.attributes.empty()) {
      EXPECT_EQ(as_it_is, 1) << text_of(c) << ": a case that does not run shows little";
    }
    for (auto& [name, attribute] : c.attributes) {
      if (auto* number = std::get_if<std::int64_t>(&attribute)) with_each_size(c, *number);
      if (auto* several = std::get_if<Numbers>(&attribute)) {
        for (std::int64_t& number : *several) with_each_size(c, number);
      }
    }
    for (Operand& operand : c.operands) {
      for (std::int64_t& number : operand.values) with_each_size(c, number);
      if (operand.known) continue;
      for (std::int64_t& number : operand.shape) with_each_size(c, number);
    }
  }
  EXPECT_GT(ran, 100);
}

}  // namespace
}  // namespace lamina::hostile_ops_test
