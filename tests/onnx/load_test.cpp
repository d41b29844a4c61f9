// .onnx files wherever a model opens, and run.

#include <limits>

#include "lamina/graph/model.h"
#include "lamina/onnx/onnx.h"
#include "support/onnx_writer.h"

namespace lamina::test::onnx::load_test {
namespace {

Model load(const std::string& bytes) {
  const TemporaryDirectory dir;
  write_file(dir / "model", bytes);  // by its content, not by its name
  return load_model(dir / "model");
}

TEST(OnnxLoad, AModelRuns) {
  const Graph g{.nodes = {{"Add", {"x", "w"}, {"sum"}}, {"Clip", {"sum"}, {"y"}, {attribute("max", 2.0f)}}},
                .initializers = {floats("w", {2}, {1, -1})},
                .inputs = {value_info("x", {"N", 2})}};
  const Model model = load(onnx::model(g, 7));
  EXPECT_EQ(model.graph.nodes()[0].shape, (Shape{batch, 2}));
  Plan plan = model.graph.compile({.batch = 2});
  const Tensor y = plan.run(Tensor::from(std::vector<float>{0, 0, 3, 4}, {2, 2}));
  EXPECT_TRUE(std::ranges::equal(y.values<float>(), std::vector<float>{1, -1, 2, 2}));
  // A bound that is not said is the last finite number, as opset 6 has it.
  constexpr float infinity = std::numeric_limits<float>::infinity(), last = std::numeric_limits<float>::max();
  const Tensor z = plan.run(Tensor::from(std::vector<float>{-infinity, infinity, 3, 4}, {2, 2}));
  EXPECT_TRUE(std::ranges::equal(z.values<float>(), std::vector<float>{-last, 2, 2, 2}));
}

/// y = x * k, and k need not be given.
Model with_a_default() {
  return load(onnx::model(Graph{.nodes = {{"Mul", {"x", "k"}, {"y"}}},
                                .initializers = {floats("k", {3}, {1, 2, 3})},
                                .inputs = {value_info("x", {3}), value_info("k", {3})}}));
}

TEST(OnnxLoad, AnInputThatIsAnInitializerTooMayBeGiven) {
  const TemporaryDirectory dir;
  const Model read = with_a_default();
  save_model(dir / "model", read);
  const Model saved = load_model(dir / "model");
  const lamina::Graph part = read.graph.until("y");
  const Tensor x = Tensor::from(std::vector<float>{1, 1, 1}, {3}), k = Tensor::from(std::vector<float>{4, 5, 6}, {3});
  const auto expect = [](const Tensor& y, std::vector<float> wanted) {
    EXPECT_TRUE(std::ranges::equal(y.values<float>(), wanted));
  };
  for (const lamina::Graph* graph : {&read.graph, &saved.graph, &part}) {
    ASSERT_EQ(graph->optional_inputs().size(), 1u);
    EXPECT_EQ(graph->inputs().size(), 1u);
    for (const bool keep_all : {false, true}) {
      CompileOptions options = {.keep_all = keep_all};
      Plan plain = graph->compile(options);
      expect(plain.run(x), {1, 2, 3});
      expect_error([&] { plain.run({{"x", x}, {"k", k}}); }, {"no input \"k\""});
      options.input_shapes["k"] = {3};
      Plan both = graph->compile(options);
      both.run({{"k", k}, {"x", x}});
      expect(both.output("y"), {4, 5, 6});
      options.constants["k"] = k;
      Plan bound = graph->compile(options);
      expect(bound.run(x), {4, 5, 6});
    }
    expect_error([&] { (void)graph->compile({.constants = {{"kk", k}}}); }, {"no input \"kk\"", "\"k\""});
    expect_error([&] { (void)graph->compile({.constants = {{"k", Tensor({4})}}}); }, {"k: expected a constant", "[4]"});
  }
}

TEST(OnnxLoad, WhatDecidedWhatTheGraphIsCannotBeGiven) {
  const auto branch = [](const char* op) {
    return graph(Graph{.nodes = {{op, {"x"}, {"r"}}}, .inputs = {}, .outputs = {"r"}});
  };
  const Model model = load(onnx::model(
      Graph{.nodes = {{"If",
                       {"c"},
                       {"y"},
                       {graph_attribute("then_branch", branch("Neg")), graph_attribute("else_branch", branch("Abs"))}}},
            .initializers = {tensor<std::uint8_t>("c", {}, {1}, BOOL)},
            .inputs = {value_info("x", {3}), value_info("c", {}, BOOL)}}));
  EXPECT_TRUE(model.graph.optional_inputs().empty());
  expect_error(
      [&] {
        (void)model.graph.compile({.constants = {{"c", Tensor::zeros({}, DType::boolean)}}});
      },
      {"no input \"c\""});
}

TEST(OnnxLoad, OpsThatLaminaHasNotAreNamed) {
  const Graph g{.nodes = {{"NonMaxSuppressionOfSorts", {"x"}, {"y"}}}};
  expect_error([&] { load(onnx::model(g)); }, {"NonMaxSuppressionOfSorts (opset 23): 1 node", "no such op"});
}

TEST(OnnxLoad, WeightFilesAreNotModels) {
  const TemporaryDirectory dir;
  write_file(dir / "x.onnx", onnx::model(Graph{}));
  EXPECT_TRUE(detail::is_onnx_file(dir / "x.onnx"));
  EXPECT_FALSE(detail::is_onnx_file(LAMINA_SOURCE_DIR "/weights/digits.safetensors"));
  expect_error([&] { Weights::open(dir / "x.onnx"); }, {"x.onnx", "this is an ONNX model"});
  expect_error([&] { (void)detail::is_onnx_file(dir / "missing"); }, {"missing"});
}

TEST(OnnxLoad, OfBytesIsAsOfTheFile) {
  std::string bytes = onnx::model(Graph{.nodes = {{"Add", {"x", "w"}, {"y"}}},
                                        .initializers = {floats("w", {2}, {1.5f, -2})},
                                        .inputs = {value_info("x", {2})}});
  const Model model = load_model(as_bytes(bytes));
  std::ranges::fill(bytes, '\0');  // they are the caller's
  EXPECT_EQ(model.graph.input_names(), std::vector<std::string>{"x"});
  EXPECT_EQ(model.graph.output_names(), std::vector<std::string>{"y"});
  Plan plan = model.graph.compile();
  const Tensor sum = plan.run(Tensor::zeros({2}));
  EXPECT_EQ(sum.values<float>()[0], 1.5f);
  EXPECT_EQ(sum.values<float>()[1], -2);

  const auto refused = [](const std::string& content, const std::vector<std::string>& words) {
    test::expect_error([&] { (void)load_model(as_bytes(content), "net"); }, words);
  };
  refused("", {"net", "expected the bytes of a file, got none"});
  refused("<html>", {"net", "HTML page"});
  refused(onnx::model(Graph{.nodes = {{"Add", {"x", "w"}, {"y"}}},
                            .initializers = {external("w", {1}, "w.bin")},
                            .inputs = {value_info("x", {1})}}),
          {"net", "\"w\"", "another file, \"w.bin\"", "by its path"});
}

TEST(OnnxLoad, AFileOfThatNameThatIsNoModelIsNamed) {
  const TemporaryDirectory dir;
  const auto expect = [&](const std::string& content, const std::string& found) {
    write_file(dir / "x.onnx", content);
    const std::string message =
        "x.onnx: not an ONNX model, which begins with its ir_version (a byte 08, then the number)";
    expect_error([&] { load_model(dir / "x.onnx"); }, {message + found});
  };
  expect("Not found: no such model", ": this is a text");
  expect("\x1f\x8b and so on", ": this is a gzip archive; unpack it: gunzip");
  expect("\x91\x92", "; the file starts with \"\\x91\\x92\"");
}

}  // namespace
}  // namespace lamina::test::onnx::load_test
