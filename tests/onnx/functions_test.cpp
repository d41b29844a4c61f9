// Bodies put where they are called: functions of the model, branches of an If that is decided.

#include "onnx/functions.h"
#include "lamina/graph/model.h"
#include "onnx/imported.h"
#include "support/devices.h"

namespace lamina::test::onnx::functions_test {
namespace {

detail::onnx::Imported import_calls(const std::vector<Node>& nodes, const std::vector<Function>& list,
                                    std::int64_t version = 18) {
  return import_bytes(onnx::model(Graph{.nodes = nodes}, version, functions(list)));
}

TEST(OnnxFunctions, BodiesStandWhereTheyAreCalled) {
  const Function f = {"F", {"a", "b"}, {"c"}, {{"Add", {"a", "b"}, {"t"}}, {"Relu", {"t"}, {"c"}}}};
  EXPECT_EQ(ops(import_calls({call("F", {"x", "x"}, {"m"}), call("F", {"m", "x"}, {"y"})}, {f})),
            "m/t: Add(x, x)\nm: Relu(m/t)\ny/t: Add(m, x)\ny: Relu(y/t)\n");
}

TEST(OnnxFunctions, CallEachOther) {
  const Function inner = {"Inner", {"a"}, {"b"}, {{"Relu", {"a"}, {"t"}}, {"Neg", {"t"}, {"b"}}}};
  const Function outer = {"Outer", {"a"}, {"b"}, {call("Inner", {"a"}, {"s"}), {"Abs", {"s"}, {"b"}}}};
  EXPECT_EQ(ops(import_calls({call("Outer", {"x"}, {"y"})}, {outer, inner})),
            "y/s/t: Relu(x)\ny/s: Neg(y/s/t)\ny: Abs(y/s)\n");
}

TEST(OnnxFunctions, AttributesAndDefaults) {
  const Function f = {"F",
                      {"a"},
                      {"b"},
                      {{"LeakyRelu", {"a"}, {"t"}, {reference("alpha", "slope", 1)}},
                       {"Elu", {"t"}, {"b"}, {reference("alpha", "other", 1), reference("nothing", "missing", 1)}}},
                      {attribute("other", 2.0f)}};
  EXPECT_EQ(ops(import_calls({call("F", {"x"}, {"y"}, {attribute("slope", 0.5f)})}, {f})),
            "y/t: LeakyRelu(x) alpha=0.5\ny: Elu(y/t) alpha=2\n");
  EXPECT_EQ(ops(import_calls({call("F", {"x"}, {"y"}, {attribute("other", 3.0f)})}, {f})),
            "y/t: LeakyRelu(x)\ny: Elu(y/t) alpha=3\n");
}

TEST(OnnxFunctions, HaveOperatorSetsOfTheirOwn) {
  const Function f = {"F", {"a"}, {"b"}, {{"Softmax", {"a"}, {"b"}}}, {}, 11};
  EXPECT_EQ(ops(import_calls({call("F", {"x"}, {"t"}), {"Softmax", {"t"}, {"y"}}}, {f})),
            "t: Softmax(x) axis=1, flatten=1\ny: Softmax(t)\n");
}

TEST(OnnxFunctions, OptionalInputsAndOutputs) {
  const Function f = {
      "F", {"a", "low", "high"}, {"b", "c"}, {{"Clip", {"a", "low", "high"}, {"b"}}, {"Neg", {"b"}, {"c"}}}};
  EXPECT_EQ(ops(import_calls({call("F", {"x", "", "x"}, {"y"})}, {f})), "y: Clip(x, -, x)\n");
  EXPECT_EQ(ops(import_calls({call("F", {"x"}, {"", "y"})}, {f})), "y/b: Clip(x)\ny: Neg(y/b)\n");
}

TEST(OnnxFunctions, OutputsThatAreInputs) {
  const Function f = {"F", {"a"}, {"a", "b", "b"}, {{"Neg", {"a"}, {"b"}}}};
  EXPECT_EQ(ops(import_calls({call("F", {"x"}, {"s", "t", "u"}), {"Sum", {"s", "t", "u"}, {"y"}}}, {f})),
            "t: Neg(x)\ns: Identity(x)\nu: Identity(t)\ny: Sum(s, t, u)\n");
}

TEST(OnnxFunctions, ConstantsWithin) {
  const Function f = {"F",
                      {"a"},
                      {"b"},
                      {{"Constant", {}, {"w"}, {tensor_attribute("value", floats("", {1}, {2}))}},
                       {"Constant", {}, {"v"}, {reference("value_int", "k", 2)}},
                       {"Sum", {"a", "w", "v"}, {"b"}}}};
  const auto m = import_calls({call("F", {"x"}, {"y"}, {attribute("k", 9)})}, {f});
  EXPECT_EQ(text(m),
            "x: input f32 [1, 3, 4, 4]\ny/w: constant f32 [1]\ny/v: constant i64 []\ny: Sum(x, y/w, y/v)\noutputs y");
  EXPECT_EQ(m.nodes.at(2).value.values<std::int64_t>()[0], 9);
}

TEST(OnnxFunctions, NamesStayUniqueAndShort) {
  const Function f = {"F", {"a"}, {"b"}, {{"Relu", {"a"}, {"t"}}, {"Neg", {"t"}, {"b"}}}};
  EXPECT_EQ(ops(import_calls({{"Abs", {"x"}, {"m/t"}}, call("F", {"m/t"}, {"m"}), {"Abs", {"m"}, {"y"}}}, {f})),
            "m/t: Abs(x)\nm/t_2: Relu(m/t)\nm: Neg(m/t_2)\ny: Abs(m)\n");
  const std::string name(500, 'n');
  const auto m = import_calls({call("F", {"x"}, {name}), {"Abs", {name}, {"y"}}}, {f});
  EXPECT_EQ(m.nodes.at(2).name, name);
  EXPECT_LT(m.nodes.at(1).name.size(), 20u);
}

TEST(OnnxFunctions, WrongOnesAreRefused) {
  const auto refused = [](const std::vector<Node>& nodes, const std::vector<Function>& list,
                          std::vector<std::string> words) {
    words.push_back("x.onnx: ");
    expect_error([&] { import_calls(nodes, list); }, words, words[0]);
  };
  const std::vector<Node> once = {call("F", {"x"}, {"y"})};
  const Function f = {"F", {"a"}, {"b"}, {{"Relu", {"a"}, {"b"}}}};
  refused(once, {f, f}, {"two functions are named \"F\""});
  refused({call("F", {"x", "x"}, {"y"})}, {f}, {"expected at most 1 inputs and 1 outputs, got 2 and 1"});
  refused({call("F", {"x"}, {"y", "z"})}, {f}, {"got 1 and 2"});
  refused(once, {{"F", {"a"}, {"b"}, {}}}, {"function \"F\": output \"b\" is made by no node"});
  refused(once, {{"F", {"a", "a"}, {"b"}, {{"Relu", {"a"}, {"b"}}}}}, {"function \"F\"", "two inputs are named \"a\""});
  refused(once, {{"F", {"a"}, {"b"}, {{"Relu", {"x"}, {"b"}}}}}, {"function \"F\": Relu \"b\": input \"x\""});
  refused(once, {{"F", {"a"}, {"b"}, {{"Relu", {"a"}, {"b"}}, {"Relu", {"a"}, {"b"}}}}},
          {"two values are named \"b\""});
  refused(once, {{"F", {"a"}, {"b"}, {call("F", {"a"}, {"b"})}}}, {"functions call each other more than 64 deep"});
  refused(once, {{"F", {"a"}, {"b"}, {{"Add", {"a", "b"}, {"b"}}}}}, {"cycle"});
}

// Sixty functions, each of which calls the next one twice.
TEST(OnnxFunctions, GrowthIsBounded) {
  std::vector<Function> list;
  for (int i = 0; i < 60; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    list.push_back({"F" + std::to_string(i), {"a"}, {"b"}, {call(next, {"a"}, {"t"}), call(next, {"t"}, {"b"})}});
  }
  list.push_back({"F60", {"a"}, {"a"}, {}});
  expect_error([&] { import_calls({call("F0", {"x"}, {"y"})}, list); }, {"x.onnx", "grow to more than"});
}

TEST(OnnxFunctions, AKilobyteOfThemDoesNotGrowToAQuarterOfAMillionNodes) {
  EXPECT_EQ(import_calls({call("F0", {"x"}, {"y"})}, nest(4, 6)).nodes.size(), 1u + 1296u);
  expect_error([&] { import_calls({call("F0", {"x"}, {"y"})}, nest(7, 6)); },  // 279,936
               {"x.onnx: function \"F", "grow to more than", "the most for a file of"});
}

TEST(OnnxFunctions, OneThatIsCalledOftenGrowsWithTheFile) {
  std::vector<Node> calls;
  for (int i = 0; i < 5000; ++i) {
    const std::string from = i == 0 ? "x" : "v" + std::to_string(i), to = i == 4999 ? "y" : "v" + std::to_string(i + 1);
    calls.push_back(call("F0", {from}, {to}));
  }
  EXPECT_EQ(import_calls(calls, nest(1, 8)).nodes.size(), 1u + 40'000u);
}

Node decided(const Message& then_branch, const Message& else_branch) {
  return {
      "If", {"c"}, {"y"}, {graph_attribute("then_branch", then_branch), graph_attribute("else_branch", else_branch)}};
}

detail::onnx::Imported import_if(const Node& node, const Message& condition) {
  return import_bytes(onnx::model(Graph{.nodes = {{"Abs", {"x"}, {"m"}}, node}, .initializers = {condition}}));
}

TEST(OnnxFunctions, BranchesThatAreDecided) {
  const Message then_branch = graph(Graph{.nodes = {{"Neg", {"m"}, {"t"}}, {"Add", {"t", "w"}, {"r"}}},
                                          .initializers = {floats("w", {}, {1})},
                                          .inputs = {},
                                          .outputs = {"r"}});
  const Message else_branch = graph(Graph{.inputs = {}, .outputs = {"m"}});
  const Node node = decided(then_branch, else_branch);
  const auto condition = [](bool value) { return tensor<bool>("c", {}, {value}, BOOL); };
  EXPECT_EQ(ops(import_if(node, condition(true))), "m: Abs(x)\ny/t: Neg(m)\ny: Add(y/t, y/w)\n");
  EXPECT_EQ(ops(import_if(node, condition(false))), "m: Abs(x)\ny: Identity(m)\n");
  expect_error([&] { import_if(node, floats("c", {}, {1})); }, {"If (opset 23)", "control flow"});
  expect_error([&] { import_if(node, tensor<bool>("c", {2}, {true, true}, BOOL)); }, {"If (opset 23)", "control flow"});
  expect_error([&] { import_if(decided(graph(Graph{.inputs = {}, .outputs = {}}), else_branch), condition(true)); },
               {"expected 1 outputs of each branch, got 0"});
  expect_error([&] { import_if(decided(graph(Graph{.inputs = {}, .outputs = {"no"}}), else_branch), condition(true)); },
               {"output \"no\" is made by no node"});
}

/// y = c ? -x : the sum of two x, by a branch that fits no x of one dimension.
std::string undecided() {
  const Message then_branch = graph(Graph{.nodes = {{"Neg", {"x"}, {"r"}}}, .inputs = {}, .outputs = {"r"}});
  const Message else_branch =
      graph(Graph{.nodes = {{"Concat", {"x", "x"}, {"t"}, {attribute("axis", 1)}}, {"Relu", {"t"}, {"r"}}},
                  .inputs = {},
                  .outputs = {"r"}});
  return onnx::model(Graph{.nodes = {{"Abs", {"x"}, {"m"}}, decided(then_branch, else_branch), {"Neg", {"y"}, {"z"}}},
                           .inputs = {value_info("x", {"A", "B"}), value_info("c", {}, BOOL)},
                           .outputs = {"z", "m"}});
}

TEST(OnnxFunctions, BranchesThatAnInputDecides) {
  EXPECT_EQ(ops(import_bytes(undecided())),
            "m: Abs(x)\ny/then_branch/r: Neg(x)\ny/else_branch/t: Concat(x, x) axis=1\n"
            "y/else_branch/r: Relu(y/else_branch/t)\ny: If(c, y/then_branch/r, y/else_branch/r)\nz: Neg(y)\n");
  const TemporaryDirectory dir;
  write_file(dir / "x.onnx", undecided());
  const Model model = load_model(dir / "x.onnx");
  const Tensor x = Tensor::from(std::vector<float>{1, -2}, {1, 2});
  CompileOptions options = {.input_shapes = {{"x", {1, 2}}}};
  CompileOptions gpu = {.device = Device::cuda(), .description = h200(), .input_shapes = options.input_shapes};
  EXPECT_NE(model.graph.plan_summary(gpu).find("on the host: If"), std::string::npos);
  for (const bool keep_all : {false, true}) {
    options.keep_all = keep_all;
    options.constants["c"] = Tensor::from(std::vector<std::uint8_t>{1}, {}).to(DType::boolean);
    Plan taken = model.graph.compile(options);
    EXPECT_TRUE(std::ranges::equal(taken.run(std::span(&x, 1))[0].values<float>(), std::vector<float>{1, -2}));
    options.constants["c"] = Tensor::zeros({}, DType::boolean);
    Plan other = model.graph.compile(options);
    EXPECT_TRUE(std::ranges::equal(other.run(std::span(&x, 1))[0].values<float>(), std::vector<float>{-1, 0, -1, 0}));
  }
}

TEST(OnnxFunctions, OnlyTheBranchThatIsTakenNeedsToFit) {
  const Message then_branch = graph(Graph{.nodes = {{"MatMul", {"x", "x"}, {"r"}}}, .inputs = {}, .outputs = {"r"}});
  const Message else_branch = graph(Graph{.nodes = {{"Neg", {"x"}, {"r"}}}, .inputs = {}, .outputs = {"r"}});
  const Graph g = {.nodes = {{"Shape", {"x"}, {"s"}},
                             {"Size", {"s"}, {"n"}},
                             {"Equal", {"n", "two"}, {"c"}},
                             decided(then_branch, else_branch)},
                   .initializers = {tensor<std::int64_t>("two", {}, {2}, 7)},
                   .inputs = {value_info("x", {3})}};
  const TemporaryDirectory dir;
  write_file(dir / "x.onnx", onnx::model(g));
  Plan plan = load_model(dir / "x.onnx").graph.compile();
  EXPECT_TRUE(std::ranges::equal(plan.run(Tensor::from(std::vector<float>{1, 2, 3}, {3})).values<float>(),
                                 std::vector<float>{-1, -2, -3}));
}

}  // namespace
}  // namespace lamina::test::onnx::functions_test
