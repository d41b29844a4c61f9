// Loops whose trip count is known once shapes are, and sequences.

#include "lamina/graph/model.h"
#include "lamina/ops/op.h"
#include "onnx/imported.h"
#include "support/onnx_writer.h"

namespace lamina::test::onnx::loops_test {
namespace {

Model load(const Graph& g) {
  const TemporaryDirectory dir;
  write_file(dir / "x.onnx", onnx::model(g));
  return load_model(dir / "x.onnx");
}

/// A body of inputs (i, go, ...) and outputs (going, ...).
Message body(std::vector<Node> nodes, const std::vector<std::string>& carried, std::vector<std::string> outputs,
             std::vector<Message> initializers = {}) {
  Graph g = {.nodes = std::move(nodes),
             .initializers = std::move(initializers),
             .inputs = {value_info("i", {}, INT64), value_info("go", {}, BOOL)},
             .outputs = std::move(outputs)};
  for (const std::string& name : carried) g.inputs.push_back(value_info(name, {"?"}));
  g.nodes.push_back({"Identity", {"go"}, {"going"}});
  return graph_attribute("body", graph(g));
}

std::vector<float> run(const Model& model, const std::vector<float>& x, Shape shape, std::size_t output = 0,
                       CompileOptions options = {}) {
  options.input_shapes["x"] = shape;
  Plan plan = model.graph.compile(options);
  const Tensor input = Tensor::from(x, shape);
  const auto values = plan.run(std::span(&input, 1))[output].values<float>();
  return {values.begin(), values.end()};
}

const Message trips = ints("axis", {0});

/// The sums of the rows before each, and of all, of x [N, 2].
Graph sums() {
  const Message inner =
      body({{"Gather", {"x", "i"}, {"row"}}, {"Add", {"sum", "row"}, {"next"}}, {"Neg", {"sum"}, {"part"}}}, {"sum"},
           {"going", "next", "part"});
  return {.nodes = {{"Shape", {"x"}, {"shape"}},
                    {"Gather", {"shape", "axis"}, {"trips"}},
                    {"Loop", {"trips", "", "none"}, {"y", "parts"}, {inner}},
                    {"Relu", {"y"}, {"z"}}},
          .initializers = {trips, floats("none", {2}, {0, 0})},
          .inputs = {value_info("x", {"N", 2})},
          .outputs = {"z", "parts"}};
}

TEST(OnnxLoops, AreMadeAsOftenAsAShapeSays) {
  const Model model = load(sums());
  EXPECT_EQ(run(model, {1, 2, 3, 4, 5, 6}, {3, 2}), (std::vector<float>{9, 12}));
  EXPECT_EQ(run(model, {1, 2, 3, 4, 5, 6}, {3, 2}, 1), (std::vector<float>{0, 0, -1, -2, -4, -6}));
  EXPECT_EQ(run(model, {1, 2}, {1, 2}, 1), (std::vector<float>{0, 0}));
  EXPECT_EQ(run(model, {1, 2, 3, 4}, {2, 2}, 0, {.keep_all = true}), (std::vector<float>{4, 6}));
  EXPECT_EQ(run(model, {1, 2, 3, 4}, {2, 2}, 0, {.keep_all = true, .outputs = {"y"}}), (std::vector<float>{4, 6}));
}

TEST(OnnxLoops, AreInModelFilesAsTheyAre) {
  const TemporaryDirectory dir;
  save_model(dir / "m.safetensors", load(sums()));
  EXPECT_EQ(run(load_model(dir / "m.safetensors"), {1, 2, 3, 4, 5, 6}, {3, 2}), (std::vector<float>{9, 12}));
}

TEST(OnnxLoops, EndWhereTheConditionIsFalse) {
  const auto until = [](const Message& limit) {
    Graph g = {.nodes = {{"Less", {"i", "limit"}, {"more"}}, {"Add", {"v", "v"}, {"w"}}},
               .initializers = {limit},
               .inputs = {value_info("i", {}, INT64), value_info("go", {}, BOOL), value_info("v", {2})},
               .outputs = {"more", "w"}};
    return load({.nodes = {{"Loop", {"", "yes", "x"}, {"y"}, {graph_attribute("body", graph(g))}}},
                 .initializers = {tensor<bool>("yes", {}, {true}, BOOL)},
                 .inputs = {value_info("x", {2})}});
  };
  EXPECT_EQ(run(until(ints("limit", {3})), {1, -1}, {2}), (std::vector<float>{16, -16}));
  EXPECT_EQ(run(until(ints("limit", {-1})), {1, -1}, {2}), (std::vector<float>{2, -2}));
  expect_error(
      [&] {
        run(until(ints("limit", {1'000'000'000})), {1, -1}, {2});
      },
      {"Loop: iteration ", " of ", "more than 100000"});
}

TEST(OnnxLoops, StandWithinEachOther) {
  const auto nested = [](std::int64_t outer, std::int64_t inner) {
    const Message deep = body({{"Cast", {"i"}, {"f"}, {attribute("to", FLOAT)}},
                               {"Cast", {"row"}, {"r"}, {attribute("to", FLOAT)}},
                               {"Mul", {"f", "r"}, {"fr"}},
                               {"Add", {"s", "fr"}, {"t"}}},
                              {"s"}, {"going", "t"});
    const Message wide =
        body({{"Identity", {"i"}, {"row"}}, {"Loop", {"inner", "", "v"}, {"w"}, {deep}}}, {"v"}, {"going", "w"});
    return load({.nodes = {{"Loop", {"outer", "", "x"}, {"y"}, {wide}}},
                 .initializers = {ints("outer", {outer}), ints("inner", {inner})},
                 .inputs = {value_info("x", {1})}});
  };
  EXPECT_EQ(run(nested(3, 4), {0.5f}, {1}), std::vector<float>{18.5f});  // (0 + 1 + 2) (0 + 1 + 2 + 3)
  EXPECT_EQ(run(nested(0, 4), {0.5f}, {1}), std::vector<float>{0.5f});
  expect_error([&] { run(nested(1000, 1000), {0}, {1}); }, {"Loop: iteration ", "more than 100000"});
}

TEST(OnnxLoops, SayWhatTheyNeedToKnow) {
  Graph g = sums();
  g.nodes[1] = {"Identity", {"n"}, {"trips"}};
  g.inputs.push_back(value_info("n", {}, INT64));
  const Model model = load(g);
  expect_error([&] { run(model, {1, 2}, {1, 2}); }, {"y", "Loop: operand 1 must be known", "depends on input \"n\""});
  CompileOptions options;
  options.constants["n"] = Tensor::from(std::vector<std::int64_t>{2}, {});
  EXPECT_EQ(run(model, {1, 2, 3, 4, 5, 6}, {3, 2}, 0, options), (std::vector<float>{4, 6}));
  options.constants["n"] = Tensor::from(std::vector<std::int64_t>{0}, {});
  EXPECT_EQ(run(model, {1, 2}, {1, 2}, 0, options), (std::vector<float>{0, 0}));
  EXPECT_EQ(run(model, {1, 2}, {1, 2}, 1, options), std::vector<float>());  // of no iteration
  expect_error([&] { run(load(sums()), {}, {0, 2}); }, {"y/body/row", "index 0 is outside"});
  Plan plan = model.graph.compile({.input_shapes = {{"x", {3, 2}}}, .capacity = {{"n", 3}}});
  for (const std::int64_t n : {3, 2}) {
    const Tensor inputs[] = {Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}),
                             Tensor::from(std::vector{n}, {})};
    const std::span<const Tensor> results = plan.run(inputs);
    EXPECT_EQ(results[0].values<float>()[0], n == 3 ? 9 : 4);
    EXPECT_EQ(results[1].shape(), (Shape{n, 2}));
  }
}

/// Of each positive x: the sum of as many ones and halves as it says, and its place; as they are found, and stacked.
TEST(OnnxLoops, ARunSaysHowOften) {
  const auto counted = [](std::vector<std::string> parts) {
    const Message inner =
        body({{"Gather", {"places", "i"}, {"place"}},
              {"Gather", {"x", "place"}, {"length"}},
              {"Cast", {"length"}, {"whole"}, {attribute("to", INT64)}},
              {"ConstantOfShape", {"whole"}, {"parts"}, {tensor_attribute("value", floats("", {1}, {1.5f}))}},
              {"ReduceSum", {"parts"}, {"sum"}},
              {"Cast", {"place"}, {"at"}, {attribute("to", FLOAT)}},
              {"Concat", {"sum", "at"}, {"row"}, {attribute("axis", 0)}},
              {"Unsqueeze", {"row", "axis"}, {"rows"}},
              {"Concat", parts, {"longer"}, {attribute("axis", 0)}}},
             {"list"}, {"going", "longer", "sum"});
    return load({.nodes = {{"Greater", {"x", "zero"}, {"found"}},
                           {"NonZero", {"found"}, {"all"}},
                           {"Transpose", {"all"}, {"places"}},
                           {"Shape", {"places"}, {"shape"}},
                           {"Gather", {"shape", "first"}, {"trips"}},
                           {"Loop", {"trips", "", "none"}, {"y", "sums"}, {inner}}},
                 .initializers = {trips, floats("zero", {}, {0}), tensor<std::int64_t>("first", {}, {0}, INT64),
                                  floats("none", {0, 2}, {})},
                 .inputs = {value_info("x", {"N"})},
                 .outputs = {"y", "sums"}});
  };
  const Model model = counted({"list", "rows"});
  EXPECT_EQ(run(model, {0, 3, -1, 2, 1}, {5}), (std::vector<float>{4.5f, 1, 3, 3, 1.5f, 4}));
  EXPECT_EQ(run(model, {0, 3, -1, 2, 1}, {5}, 1), (std::vector<float>{4.5f, 3, 1.5f}));
  EXPECT_EQ(run(model, {9, 9, 9, 9}, {4}, 1).size(), 4u);
  EXPECT_TRUE(run(model, {0, 0, 0, 0}, {4}).empty());
  expect_error(
      [&] {
        run(counted({"list", "rows", "list"}), {1, 2, 3}, {3});
      },
      {"y", "Loop: expected an output of as many rows in each iteration"});
}

TEST(OnnxLoops, WhatIsFoundIsPaddedAndResized) {
  const auto padded = [](const std::vector<std::int64_t>& pads) {
    return load({.nodes = {{"NonZero", {"x"}, {"all"}},
                           {"Transpose", {"all"}, {"places"}},
                           {"Cast", {"places"}, {"numbers"}, {attribute("to", FLOAT)}},
                           {"Unsqueeze", {"numbers", "axes"}, {"images"}},
                           {"Pad", {"images", "pads"}, {"wide"}},
                           {"Resize", {"wide", "", "scales"}, {"y"}, {attribute("mode", "linear")}}},
                 .initializers = {ints("axes", {2, 3}), ints("pads", pads), floats("scales", {4}, {1, 1, 2, 1})},
                 .inputs = {value_info("x", {"N"})}});
  };
  EXPECT_EQ(run(padded({0, 0, 0, 0, 0, 0, 0, 1}), {0, 5, 0, 5}, {4}), (std::vector<float>{1, 0, 1, 0, 3, 0, 3, 0}));
  EXPECT_EQ(run(padded({0, 0, 0, 0, 1, 0, 0, 0}), {0, 5, 0, 5}, {4}), (std::vector<float>{1, 1, 3, 3, 0, 0}));
}

/// The sums of the rows before each and of all, and each row's double.
TEST(OnnxLoops, AScanIsOneOverSlices) {
  const auto scan = [](Message last) {
    Graph g = {.nodes = {{"Add", {"sum", "row"}, {"next"}},
                         {"Identity", {"sum"}, {"before"}},
                         {"Add", {"row", "row"}, {"twice"}}},
               .inputs = {value_info("sum", {2}), value_info("row", {2})},
               .outputs = {"next", "before", "twice"}};
    return load({.nodes = {{"Scan",
                            {"none", "x"},
                            {"y", "parts", "all"},
                            {graph_attribute("body", graph(g)), attribute("num_scan_inputs", 1), std::move(last)}}},
                 .initializers = {floats("none", {2}, {0, 1})},
                 .inputs = {value_info("x", {"N", 2})},
                 .outputs = {"y", "parts", "all"}});
  };
  const Model model = scan(attribute("scan_input_axes", std::vector<std::int64_t>{0}));
  EXPECT_EQ(run(model, {1, 2, 3, 4, 5, 6}, {3, 2}), (std::vector<float>{9, 13}));
  EXPECT_EQ(run(model, {1, 2, 3, 4, 5, 6}, {3, 2}, 1), (std::vector<float>{0, 1, 1, 3, 4, 7}));
  EXPECT_EQ(run(model, {1, 2, 3, 4}, {2, 2}, 2), (std::vector<float>{2, 4, 6, 8}));
  expect_error([&] { scan(attribute("scan_input_directions", std::vector<std::int64_t>{1})); },
               {"Scan (opset 23)", "control flow"});
}

TEST(OnnxLoops, WrongOnesAreRefused) {
  const auto refused = [](const std::vector<std::string>& inputs, const Message& inner,
                          std::vector<std::string> words) {
    expect_error([&] { load({.nodes = {{"Loop", inputs, {"y"}, {inner}}}, .initializers = {trips}}); }, words);
  };
  refused({"axis", "", "x"}, body({}, {}, {"going", "x"}),
          {"expected 3 inputs and 2 or more outputs of the body, got 2 and 2"});
  refused({"axis", "", "x"}, body({}, {"v"}, {"going"}),
          {"expected 3 inputs and 2 or more outputs of the body, got 3 and 1"});
  refused({"axis", "", "x"}, body({}, {"v"}, {"going", "no"}), {"output \"no\" is made by no node"});
  refused({"axis", "", "x"}, attribute("body", 1), {"Loop (opset 23)", "control flow"});
  lamina::Graph alone;
  const lamina::Value x = alone.input("x", {2});
  alone.output(alone.add("y", Op("Add"), {x, alone.add("v", std::make_shared<Op>("LoopValue"), {})}));
  expect_error([&] { (void)alone.compile(); }, {"v: LoopValue: it is bound by no Loop"});
}

TEST(OnnxSequences, AreListsOfTensors) {
  const std::vector<Node> split = {{"SplitToSequence", {"x", "lengths"}, {"s"}, {attribute("axis", 0)}}};
  const auto joined = [&](std::vector<Node> nodes, const std::vector<float>& wanted, std::vector<Message> more = {}) {
    nodes.insert(nodes.begin(), split.begin(), split.end());
    more.push_back(ints("lengths", {1, 0, 3}));
    const Model model = load({.nodes = nodes, .initializers = more, .inputs = {value_info("x", {4})}});
    EXPECT_EQ(run(model, {1, 2, 3, 4}, {4}), wanted);
  };
  const Node together = {"ConcatFromSequence", {"t"}, {"y"}, {attribute("axis", 0)}};
  joined({{"Identity", {"x"}, {"u"}}, {"SequenceInsert", {"s", "u", "at"}, {"t"}}, together}, {1, 1, 2, 3, 4, 2, 3, 4},
         {ints("at", {1})});
  joined({{"SequenceErase", {"s"}, {"t"}}, together}, {1});
  joined({{"SequenceAt", {"s", "at"}, {"y"}}}, {2, 3, 4}, {ints("at", {-1})});
  joined({{"SequenceLength", {"s"}, {"n"}}, {"Cast", {"n"}, {"y"}, {attribute("to", FLOAT)}}}, {3});
  joined({{"SequenceConstruct", {"x", "x"}, {"t"}},
          {"ConcatFromSequence", {"t"}, {"y"}, {attribute("axis", 1), attribute("new_axis", 1)}}},
         {1, 1, 2, 2, 3, 3, 4, 4});
  joined({{"SequenceEmpty", {}, {"e"}}, {"SequenceInsert", {"e", "x"}, {"t"}}, together}, {1, 2, 3, 4});
  expect_error(
      [&] {
        joined({{"SequenceAt", {"s", "at"}, {"y"}}}, {}, {ints("at", {3})});
      },
      {"no place 3 in a sequence of 3"});
  expect_error([&] { joined({{"Relu", {"s"}, {"y"}}}, {}); }, {"operand 1 is a sequence"});
  expect_error([&] { joined({{"SequenceErase", {"s"}, {"y"}}}, {}); }, {"y: expected a tensor as output"});
  expect_error(
      [&] {
        joined({{"SequenceAt", {"x", "at"}, {"y"}}}, {}, {ints("at", {0})});
      },
      {"expected a sequence as operand 1"});
  expect_error([&] { joined({{"SequenceEmpty", {}, {"t"}}, together}, {}); }, {"nothing in the sequence"});
}

TEST(OnnxSequences, AreCarriedByLoops) {
  const Message inner =
      body({{"Gather", {"x", "i"}, {"row"}}, {"SequenceInsert", {"list", "row", "first"}, {"longer"}}}, {"list"},
           {"going", "longer"}, {ints("first", {0})});
  const Model model =
      load({.nodes = {{"SequenceEmpty", {}, {"empty"}},
                      {"SplitToSequence", {"x"}, {"rows"}, {attribute("keepdims", 0)}},
                      {"SequenceLength", {"rows"}, {"n"}},
                      {"Loop", {"n", "", "empty"}, {"t"}, {inner}},
                      {"ConcatFromSequence", {"t"}, {"y"}, {attribute("axis", 0), attribute("new_axis", 1)}}},
            .inputs = {value_info("x", {"N", 2})}});
  EXPECT_EQ(run(model, {1, 2, 3, 4, 5, 6}, {3, 2}), (std::vector<float>{5, 6, 3, 4, 1, 2}));
}

}  // namespace
}  // namespace lamina::test::onnx::loops_test
