// Ifs whose condition a run computes.

#include "lamina/graph/model.h"
#include "lamina/ops/op.h"
#include "onnx/imported.h"
#include "support/devices.h"
#include "support/onnx_writer.h"

namespace lamina::test::onnx::branches_test {
namespace {

using Floats = std::vector<float>;

Message branch(std::vector<Node> nodes, std::vector<std::string> outputs = {"r"},
               std::vector<Message> initializers = {}) {
  return graph(Graph{
      .nodes = std::move(nodes), .initializers = std::move(initializers), .inputs = {}, .outputs = std::move(outputs)});
}

Node choice(const Message& then_branch, const Message& else_branch, std::vector<std::string> outputs = {"y"},
            std::string condition = "c") {
  return {"If",
          {std::move(condition)},
          std::move(outputs),
          {graph_attribute("then_branch", then_branch), graph_attribute("else_branch", else_branch)}};
}

/// An If, of x [N, 2], whose condition "c" is that x's sum is positive.
Model decided(std::vector<Node> nodes, std::vector<std::string> outputs = {"y"},
              std::vector<Message> initializers = {}) {
  Graph g = {.nodes = {{"ReduceSum", {"x"}, {"sum"}, {attribute("keepdims", 0)}}, {"Greater", {"sum", "zero"}, {"c"}}},
             .initializers = std::move(initializers),
             .inputs = {value_info("x", {"N", 2})},
             .outputs = std::move(outputs)};
  g.initializers.push_back(floats("zero", {}, {0}));
  g.nodes.insert(g.nodes.end(), nodes.begin(), nodes.end());
  const TemporaryDirectory dir;
  write_file(dir / "x.onnx", onnx::model(g));
  return load_model(dir / "x.onnx");
}

Plan compiled(const Model& model, Shape shape, CompileOptions options = {}) {
  options.input_shapes["x"] = shape;
  return model.graph.compile(options);
}

/// On each device that is here.
class OnnxBranchesOn : public testing::TestWithParam<Device> {
 protected:
  static Plan compiled(const Model& model, Shape shape, CompileOptions options = {}) {
    options.device = GetParam();
    return branches_test::compiled(model, shape, std::move(options));
  }
};
INSTANTIATE_TEST_SUITE_P(Here, OnnxBranchesOn, testing::ValuesIn(test::devices_here()),
                         [](const auto& each) { return each.param.is_cpu() ? "cpu" : "cuda"; });

/// "[2, 2]: 1 2 3 4"
std::string run(Plan& plan, const Floats& x, std::size_t output = 0) {
  const Tensor input = Tensor::from(x, plan.input_shapes()[0]);
  const Tensor result = plan.run(std::span(&input, 1))[output].to(DType::f32);
  std::string text = detail::concat(result.shape(), ':');
  for (const float value : result.values<float>()) text += detail::concat(' ', value);
  return text;
}

const Message doubled = branch({{"Add", {"x", "x"}, {"r"}}}), opposite = branch({{"Neg", {"x"}, {"r"}}});

TEST_P(OnnxBranchesOn, ARunTakesOne) {
  const Model model = decided({choice(branch({{"Add", {"x", "x"}, {"r"}}, {"Add", {"r", "w"}, {"s"}}}, {"r", "s"},
                                             {floats("w", {2}, {10, 20})}),
                                      branch({{"Neg", {"x"}, {"s"}}}, {"x", "s"}), {"y", "z"}),
                               {"Relu", {"z"}, {"p"}}},
                              {"y", "z", "p"});
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Plan plan = compiled(model, {1, 2}, {.precision = precision});
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(run(plan, {1, 2}), "[1, 2]: 2 4");
      EXPECT_EQ(run(plan, {1, 2}, 1), "[1, 2]: 12 24");
      EXPECT_EQ(run(plan, {-1, -2}), "[1, 2]: -1 -2");
      EXPECT_EQ(run(plan, {-3, 2}, 1), "[1, 2]: 3 -2");
      EXPECT_EQ(run(plan, {-3, 2}, 2), "[1, 2]: 3 0");
    }
  }
  Plan all = compiled(model, {1, 2}, {.keep_all = true});
  EXPECT_EQ(run(all, {-3, 2}, 2), "[1, 2]: 3 0");
}

TEST_P(OnnxBranchesOn, TheOtherOneIsNotComputed) {
  const Message taken = branch({{"Cast", {"x"}, {"i"}, {attribute("to", INT64)}}, {"Gather", {"list", "i"}, {"r"}}},
                               {"r"}, {floats("list", {3}, {5, 6, 7})});
  Plan plan = compiled(decided({choice(taken, opposite)}), {2, 2});
  EXPECT_EQ(run(plan, {0, 1, 2, 0}), "[2, 2]: 5 6 7 5");
  EXPECT_EQ(run(plan, {-100, 1, 2, 0}), "[2, 2]: 100 -1 -2 -0");
  expect_error([&] { run(plan, {100, 1, 2, 0}); }, {"y", "100"});
  EXPECT_EQ(run(plan, {0, 1, 2, 0}), "[2, 2]: 5 6 7 5");
}

TEST_P(OnnxBranchesOn, MayDifferInTheirExtents) {
  const Message first =
      branch({{"Slice", {"x", "none", "one", "none"}, {"r"}}}, {"r"}, {ints("none", {0}), ints("one", {1})});
  Plan plan = compiled(decided({choice(first, opposite), {"Relu", {"y"}, {"z"}}}, {"z"}), {3, 2});
  EXPECT_EQ(run(plan, {1, 2, 3, 4, 5, 6}), "[1, 2]: 1 2");
  EXPECT_EQ(run(plan, {-1, 2, -3, 4, -5, 2}), "[3, 2]: 1 0 3 0 5 0");
  const Message narrow = branch({{"ReduceSum", {"x", "axis"}, {"r"}}}, {"r"}, {ints("axis", {1})});
  Plan columns = compiled(decided({choice(narrow, doubled), {"Relu", {"y"}, {"z"}}}, {"z"}), {2, 2});
  EXPECT_EQ(run(columns, {1, 2, 3, 4}), "[2, 1]: 3 7");
  EXPECT_EQ(run(columns, {-1, 1, -2, 2}), "[2, 2]: 0 2 0 4");
}

TEST_P(OnnxBranchesOn, MayFindAsManyAsThereAre) {
  const Message found = branch({{"NonZero", {"x"}, {"r"}}}),
                none = branch({{"Slice", {"all", "from", "to", "axes"}, {"r"}}}, {"r"},
                              {tensor<std::int64_t>("all", {2, 1}, {8, 9}, INT64), ints("from", {0}), ints("to", {0}),
                               ints("axes", {1})});
  Plan plan = compiled(decided({choice(found, none), {"Neg", {"y"}, {"z"}}}, {"z"}), {2, 2});
  EXPECT_EQ(run(plan, {0, 5, 0, 5}), "[2, 2]: 0 -1 -1 -1");
  EXPECT_EQ(run(plan, {0, 0, 0, 5}), "[2, 1]: -1 -1");
  EXPECT_EQ(run(plan, {-1, 0, 0, 0}), "[2, 0]:");
}

TEST_P(OnnxBranchesOn, MayReadAsManyAsThereAre) {
  const Model model = decided({{"NonZero", {"x"}, {"places"}},
                               {"Cast", {"places"}, {"all"}, {attribute("to", FLOAT)}},
                               choice(branch({{"Neg", {"all"}, {"r"}}}), branch({{"Add", {"all", "all"}, {"r"}}}))});
  Plan plan = compiled(model, {2, 2});
  EXPECT_EQ(run(plan, {0, 5, 0, 5}), "[2, 2]: -0 -1 -1 -1");
  EXPECT_EQ(run(plan, {0, 0, 0, -5}), "[2, 1]: 2 2");
}

TEST_P(OnnxBranchesOn, HoldOthers) {
  const std::vector<Node> more = {{"Less", {"sum", "ten"}, {"few"}},
                                  choice(opposite, branch({{"Relu", {"x"}, {"r"}}}), {"r"}, "few")};
  const Model model = decided({choice(branch(more, {"r"}, {floats("ten", {}, {10})}), doubled)});
  Plan plan = compiled(model, {1, 2}, {.threads = 2});
  EXPECT_EQ(run(plan, {1, 2}), "[1, 2]: -1 -2");
  EXPECT_EQ(run(plan, {-1, 12}), "[1, 2]: 0 12");
  EXPECT_EQ(run(plan, {-1, -2}), "[1, 2]: -2 -4");
}

/// What goes in and out is f32 for the host.
TEST_P(OnnxBranchesOn, OfValuesIn16Bits) {
  const Message half = branch({{"Mul", {"h", "two"}, {"r"}, {}}});
  const Message both = branch({{"Concat", {"h", "h"}, {"r"}, {attribute("axis", 0)}}});
  const Model model = decided({{"Cast", {"x"}, {"h"}, {attribute("to", 10)}},
                               {"Cast", {"number"}, {"two"}, {attribute("to", 10)}},
                               choice(half, both, {"q"}),
                               {"Cast", {"q"}, {"y"}, {attribute("to", 1)}}},
                              {"y"}, {floats("number", {}, {2})});
  Plan plan = compiled(model, {1, 2});
  EXPECT_EQ(run(plan, {1, 2}), "[1, 2]: 2 4");
  EXPECT_EQ(run(plan, {-1, -2}), "[2, 2]: -1 -2 -1 -2");
}

TEST(OnnxBranches, AreCountedInThePlansMemory) {
  const auto large = [](float w) {
    return branch({{"MatMul", {"x", "w"}, {"r"}}}, {"r"}, {floats("w", {2, 4096}, Floats(8192, w))});
  };
  const Model model = decided({choice(large(1), large(2))});
  const CompileOptions options = {.threads = 1, .input_shapes = {{"x", {4, 2}}}};
  EXPECT_GT(model.graph.plan_memory(options).total(), 2 * 4 * 4096 * sizeof(float));
  const PlanMemory a = model.graph.plan_memory(options), b = model.graph.compile(options).memory();
  EXPECT_EQ(a.total(), b.total());
}

TEST(OnnxBranches, WrongOnesAreRefused) {
  const auto refused = [](const Message& a, const Message& b, std::vector<std::string> words) {
    expect_error([&] { (void)compiled(decided({choice(a, b)}), {2, 2}); }, std::move(words));
  };
  refused(opposite,
          branch({{"ReduceSum", {"x", "axis"}, {"r"}, {attribute("keepdims", 0)}}}, {"r"}, {ints("axis", {1})}),
          {"y: If: expected branches of one rank and type, got f32 [2, 2] and f32 [2]", "constants", "\"x\""});
  refused(opposite, branch({{"Cast", {"x"}, {"r"}, {attribute("to", INT64)}}}),
          {"y: If: expected branches of one rank and type, got f32 [2, 2] and i64 [2, 2]"});
  refused(opposite, branch({{"MatMul", {"x", "wide"}, {"r"}}}, {"r"}, {floats("wide", {3, 2}, Floats(6))}),
          {"y/else_branch/r: MatMul"});
  const auto conditioned = [](const Node& made) {
    (void)compiled(decided({made, choice(opposite, doubled, {"y"}, "d")}), {2, 2});
  };
  expect_error(
      [&] {
        conditioned({"Relu", {"sum"}, {"d"}});
      },
      {"y: If: expected a condition of one boolean, got f32 []"});
  expect_error(
      [&] {
        conditioned({"Greater", {"x", "zero"}, {"d"}});
      },
      {"y: If: expected a condition of one boolean, got bool [2, 2]"});
}

/// Each of these Ifs is in the branch of the next one, or read by both.
TEST(OnnxBranches, WithinEachOtherTakeTimeInProportion) {
  const auto chain = [](int n, bool both) {
    lamina::Graph g;
    const lamina::Value x = g.input("x", {2});
    const auto add = [&](std::string op, std::vector<lamina::Value> inputs) {
      return g.add(detail::concat(op, g.nodes().size()), std::make_shared<Op>(op), inputs);
    };
    const lamina::Value sum = add("ReduceSum", {x});
    lamina::Value y = x;
    for (int i = 0; i < n; ++i) {
      const lamina::Value condition = add("Less", {sum, add("Neg", {sum})});
      y = add("If", {condition, add("Neg", {y}), both ? add("Abs", {y}) : x});
    }
    g.output(y);
    return g;
  };
  Plan plan = chain(200, true).compile({.threads = 1});
  EXPECT_EQ(run(plan, {1, -3}), "[2]: 1 -3");
  EXPECT_EQ(run(plan, {3, -1}), "[2]: 3 1");
  expect_error([&] { (void)chain(100, false).compile({.threads = 1}); }, {"If: more than 64 are within each other"});
}

}  // namespace
}  // namespace lamina::test::onnx::branches_test
