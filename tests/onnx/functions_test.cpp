// Bodies put where they are called: functions of the model, branches of an If that is decided.

#include "onnx/imported.h"
#include "support/onnx_writer.h"

namespace lamina::test::onnx {
namespace {

struct Function {
  std::string name;
  std::vector<std::string> inputs, outputs;
  std::vector<Node> nodes;
  std::vector<Message> defaults = {};
  std::int64_t opset = 18;
};

Message functions(const std::vector<Function>& list) {
  Message all;
  for (const Function& f : list) {
    Message m = Message().text(1, f.name).texts(4, f.inputs).texts(5, f.outputs).text(10, "own");
    for (const Node& n : f.nodes) m.message(7, node(n));
    for (const Message& attribute : f.defaults) m.message(11, attribute);
    all.message(25, m.message(9, opset(f.opset)));
  }
  return all.message(8, opset(1, "own"));
}

Node call(const std::string& name, std::vector<std::string> inputs, std::vector<std::string> outputs,
          std::vector<Message> attributes = {}) {
  return {name, std::move(inputs), std::move(outputs), std::move(attributes), "", "own"};
}

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
               {"expected 1 outputs of then_branch, got 0"});
  expect_error([&] { import_if(decided(graph(Graph{.inputs = {}, .outputs = {"no"}}), else_branch), condition(true)); },
               {"output \"no\" is made by no node"});
}

}  // namespace
}  // namespace lamina::test::onnx
