// What becomes of a whole model: nodes, names, inputs, functions, and what is refused.

#include "lamina/onnx/import.h"

#include "onnx/imported.h"
#include "support/onnx_writer.h"

namespace lamina::test::onnx::import_test {
namespace {

using namespace detail::onnx;

TEST(OnnxImport, NodesAreNamedAfterValues) {
  const Imported m = import_bytes(onnx::model(
      Graph{.nodes = {{"Add", {"x", "w"}, {"sum"}, {}, "first"}, {"Clip", {"sum", "", "w"}, {"y"}, {}, "second"}},
            .initializers = {floats("w", {1}, {2})}},
      17, Message().message(14, Message().text(1, "k").text(2, "v"))));
  EXPECT_EQ(text(m), "x: input f32 [1, 3, 4, 4]\nw: constant f32 [1]\nsum: Add(x, w)\ny: Clip(sum, -, w)\noutputs y");
  EXPECT_EQ(m.opset, 17);
  EXPECT_EQ(m.producer, "tests");
  EXPECT_EQ(m.name, "g");
  EXPECT_EQ(m.metadata.at(0).second, "v");
}

TEST(OnnxImport, SeveralOutputs) {
  const Graph g{.nodes = {{"TopK", {"x", "k"}, {"", "indices"}},
                          {"LSTM", {"x", "k", "k"}, {"all", "last", "cell"}},
                          {"Add", {"indices", "last"}, {"y"}}},
                .initializers = {ints("k", {1})}};
  EXPECT_EQ(ops(import_bytes(onnx::model(g))),
            "indices: TopK(x, k) output=1\nlast: LSTM(x, k, k) output=1\ny: Add(indices, last)\n");
}

TEST(OnnxImport, TrailingInputsThatAreLeftOutGo) {
  const Graph g{.nodes = {{"Conv", {"x", "w", ""}, {"y"}}}, .initializers = {floats("w", {}, {1})}};
  EXPECT_EQ(ops(import_bytes(onnx::model(g))), "y: Conv(x, w)\n");
}

TEST(OnnxImport, ExtentsOfInputs) {
  const Graph g{
      .nodes = {{"Sum", {"a", "b", "c", "d", "e", "f"}, {"y"}}},
      .inputs = {value_info("a", {"N", 3, "H", "N"}), value_info("b", {"N"}, INT64), value_info("c", {"M", 2}),
                 value_info("d", {"", ""}, BOOL), value_info("e", {-1, 0, 5}), value_info("f", {})}};
  const std::string expected =
      "a: input f32 [-1, 3, -2, -1]\nb: input i64 [-1]\nc: input f32 [-2, 2]\nd: input bool [-1, -2]\n"
      "e: input f32 [-1, -2, 5]\nf: input f32 []\n";
  EXPECT_EQ(text(import_bytes(onnx::model(g))).substr(0, expected.size()), expected);
}

TEST(OnnxImport, InitializersAmongTheInputsAreConstants) {
  const Graph g{.nodes = {{"Add", {"x", "w"}, {"y"}}},
                .initializers = {floats("w", {1}, {2})},
                .inputs = {value_info("w", {1}), value_info("x", {2})}};
  EXPECT_EQ(text(import_bytes(onnx::model(g))), "x: input f32 [2]\nw: constant f32 [1]\ny: Add(x, w)\noutputs y");
}

TEST(OnnxImport, WhatNobodyNeedsIsLeftOutButForInputs) {
  const Graph g{.nodes = {{"Loop", {"x"}, {"unused"}}, {"Relu", {"x"}, {"y"}}},
                .initializers = {header("strings", STRING, {1}).text(6, "a")},
                .inputs = {value_info("x", {1}), value_info("other", {1})}};
  EXPECT_EQ(text(import_bytes(onnx::model(g))), "x: input f32 [1]\nother: input f32 [1]\ny: Relu(x)\noutputs y");
}

TEST(OnnxImport, NodesInAnyOrder) {
  const Graph g{.nodes = {{"Relu", {"c"}, {"y"}}, {"Neg", {"b"}, {"c"}}, {"Abs", {"x"}, {"b"}}}};
  EXPECT_EQ(ops(import_bytes(onnx::model(g))), "b: Abs(x)\nc: Neg(b)\ny: Relu(c)\n");
}

TEST(OnnxImport, OutputsThatAreInputsOrConstants) {
  const Graph g{.initializers = {floats("w", {1}, {2})}, .outputs = {"x", "w"}};
  EXPECT_EQ(text(import_bytes(onnx::model(g))), "x: input f32 [1, 3, 4, 4]\nw: constant f32 [1]\noutputs x w");
}

TEST(OnnxImport, NamesOfAnyBytes) {
  const std::string name("\x1b[2J\0 \xff\n", 8);
  const Graph g{.nodes = {{"Relu", {"x"}, {name}}, {"Relu", {name}, {"y"}}}};
  EXPECT_EQ(import_bytes(onnx::model(g)).nodes.at(1).name, name);
  const Graph bad{.nodes = {{"Strange", {"x"}, {name}}, {"Relu", {name}, {"y"}}}};
  expect_error([&] { import_bytes(onnx::model(bad)); }, {"Strange", "\\x1b[2J\\x00"});
}

TEST(OnnxImport, ConstantsOfEveryForm) {
  const auto constant = [](const Message& attribute) {
    return import_bytes(onnx::model(Graph{.nodes = {{"Constant", {}, {"y"}, {attribute}}}})).nodes.back().value;
  };
  EXPECT_EQ(constant(tensor_attribute("value", ints("", {7}))).values<std::int64_t>()[0], 7);
  EXPECT_EQ(constant(attribute("value_int", 5)).description(), "i64 [] on cpu");
  EXPECT_EQ(constant(attribute("value_float", 2.5f)).values<float>()[0], 2.5f);
  EXPECT_EQ(constant(attribute("value_ints", std::vector<std::int64_t>{1, 2})).description(), "i64 [2] on cpu");
  EXPECT_EQ(constant(attribute("value_floats", std::vector<float>{})).description(), "f32 [0] on cpu");
  expect_error([&] { constant(attribute("value_string", "text")); }, {"Constant (opset 23)"});
}

TEST(OnnxImport, EverythingThatCannotRunIsSaidAtOnce) {
  const Graph g{.nodes = {{"Strange", {"x"}, {"a"}, {}, "s1"},
                          {"Strange", {"a"}, {"b"}, {}, "s2"},
                          {"Loop", {"b"}, {"c"}},
                          {"SequenceMap", {"c"}, {"d"}},
                          {"GatedAdd", {"d"}, {"e"}, {}, "", "com.microsoft"},
                          {"TreeEnsemble", {"e"}, {"t"}, {}, "", "ai.onnx.ml"},
                          {"Adam", {"t"}, {"f"}, {}, "", "ai.onnx.preview.training"},
                          {"BatchNormalization", {"f", "f", "f", "f", "f"}, {"y"}, {attribute("spatial", 0)}}}};
  expect_error([&] { import_bytes(onnx::model(g, 17, Message().message(8, opset(1, "com.microsoft")))); },
               {"x.onnx: Lamina cannot run 8 nodes of this model:",
                "\n  Strange (opset 17): 2 nodes, the first Strange \"s1\": no such op",
                "\n  Loop (opset 17): 1 node, Loop \"c\": control flow",
                "\n  SequenceMap (opset 17): 1 node, SequenceMap \"d\": sequences",
                "\n  com.microsoft.GatedAdd (opset 1): 1 node, GatedAdd \"e\": Lamina has no ops of this domain",
                "\n  ai.onnx.ml.TreeEnsemble (opset 0): 1 node, TreeEnsemble \"t\": decision trees, SVMs and texts",
                "\n  ai.onnx.preview.training.Adam (opset 0): 1 node, Adam \"f\": training",
                "\n  BatchNormalization (opset 17): 1 node, BatchNormalization \"y\": spatial=0"});
}

TEST(OnnxImport, ManyKindsAreCutShort) {
  Graph g;
  for (int i = 0; i < 1000; ++i) {
    g.nodes.push_back({"Strange" + std::to_string(i), {"x"}, {std::to_string(i)}});
    if (i > 0)
      g.nodes.push_back({"Add",
                         {std::to_string(i), i == 1 ? "0" : "s" + std::to_string(i - 1)},
                         {i == 999 ? "y" : "s" + std::to_string(i)}});
  }
  expect_error([&] { import_bytes(onnx::model(g)); }, {"Strange0 ", "and 960 kinds more"});
}

TEST(OnnxImport, WrongModelsAreRefused) {
  const auto refused = [](const Graph& g, std::vector<std::string> words, std::int64_t version = 23) {
    words.push_back("x.onnx: ");
    expect_error([&] { import_bytes(onnx::model(g, version)); }, words, words[0]);
  };
  const std::vector<Node> relu = {{"Relu", {"x"}, {"y"}}};
  refused({.nodes = relu}, {"expected opset 7 to 27, got 6"}, 6);
  refused({.nodes = relu}, {"expected opset 7 to 27, got 0"}, 0);
  refused({.nodes = relu}, {"expected opset 7 to 27, got 999"}, 999);
  refused({.nodes = relu}, {"got -9223372036854775808"}, INT64_MIN);
  refused({.nodes = relu, .outputs = {}}, {"no outputs"});
  refused({.nodes = relu, .outputs = {"z"}}, {"output \"z\" is made by no node"});
  refused({.nodes = relu, .outputs = {"y", "y"}}, {"\"y\" is listed twice"});
  refused({.nodes = {{"Relu", {"z"}, {"y"}}}}, {"Relu \"y\": input \"z\" is made by no node"});
  refused({.nodes = {{"Relu", {"x"}, {"y"}}, {"Abs", {"x"}, {"y"}}}}, {"two values are named \"y\""});
  refused({.nodes = {{"Relu", {"x"}, {"x"}}}}, {"two values are named \"x\""});
  refused({.nodes = {{"Split", {"x"}, {"y", "y"}}}}, {"two values are named \"y\""});
  refused({.nodes = relu, .inputs = {value_info("x", {1}), value_info("x", {1})}}, {"two values are named \"x\""});
  refused({.nodes = relu, .initializers = {floats("w", {}, {1}), floats("w", {}, {1})}},
          {"two values are named \"w\""});
  refused({.nodes = relu, .initializers = {floats("", {}, {1})}}, {"initializer has no name"});
  refused({.nodes = relu, .inputs = {value_info("", {1})}}, {"input has no name"});
  refused({.nodes = {{"Add", {"x", "y"}, {"y"}}}}, {"Add \"y\"", "cycle"});
  refused({.nodes = {{"Add", {"x", "b"}, {"a"}}, {"Relu", {"a"}, {"b"}}, {"Relu", {"b"}, {"y"}}}}, {"cycle"});
  refused({.nodes = relu, .inputs = {Message().text(1, "x")}}, {"input \"x\": expected a tensor, got no type"});
  refused({.nodes = relu, .inputs = {Message().text(1, "x").message(2, Message().message(4, {}))}},
          {"expected a tensor, got sequence"});
  refused({.nodes = relu, .inputs = {value_info("x", {1}, STRING)}}, {"input \"x\"", "element type STRING"});
  refused({.nodes = relu, .inputs = {value_info("x", {1}, 77)}}, {"input \"x\"", "data_type 77"});
  refused({.nodes = relu, .inputs = {value_info("x", std::vector<Extent>(9, 1))}}, {"at most 8 dimensions, got 9"});
  refused({.nodes = {{"Relu", {"x"}, {"y"}, {attribute("a", 1), attribute("a", 2)}}}}, {"two attributes \"a\""});
  refused({.nodes = {{"Relu", {"x"}, {"y"}, {graph_attribute("a", graph({}))}}}}, {"attribute \"a\" is of a type"});
  refused({.nodes = {{"Add", {"x", "w"}, {"y"}}}, .initializers = {header("w", 17, {1}).text(9, "a")}},
          {"tensor \"w\"", "FLOAT8E4M3FN"});
}

TEST(OnnxImport, TwoVersionsOfOneOperatorSetAreRefused) {
  const Graph g = {.nodes = {{"Relu", {"x"}, {"y"}}}};
  const auto imports = [&](std::int64_t version, const std::string& domain) {
    return import_bytes(onnx::model(g, 18, Message().message(8, opset(version, domain))));
  };
  EXPECT_EQ(imports(18, "").nodes.size(), 2u);
  EXPECT_EQ(imports(3, "own").nodes.size(), 2u);
  for (const char* domain : {"", "ai.onnx"}) {
    expect_error([&] { imports(13, domain); },
                 {"x.onnx: operator set \"ai.onnx\" is imported as version 18 and as version 13"});
  }
}

TEST(OnnxImport, ALongChain) {
  Graph g;
  constexpr int length = 100'000;
  for (int i = 0; i < length; ++i) {
    g.nodes.push_back({"Relu", {i == 0 ? "x" : std::to_string(i)}, {i + 1 == length ? "y" : std::to_string(i + 1)}});
  }
  EXPECT_EQ(import_bytes(onnx::model(g)).nodes.size(), length + 1u);
  std::ranges::reverse(g.nodes);
  EXPECT_EQ(import_bytes(onnx::model(g)).nodes.size(), length + 1u);
}

TEST(OnnxImport, Damaged) {
  const Message function =
      Message().text(1, "F").text(4, "a").text(5, "b").text(10, "own").message(7, node({"Relu", {"a"}, {"b"}}));
  const Graph g{.nodes = {{"F", {"x"}, {"a"}, {}, "", "own"},
                          {"Pad", {"a"}, {"b"}, {attribute("pads", std::vector<std::int64_t>{1, 1, 1, 1})}},
                          {"Add", {"b", "w"}, {"y"}}},
                .initializers = {floats("w", {2, 1}, {1.5f, 2})}};
  fuzz(onnx::model(g, 9, Message().message(25, function)), [](const std::filesystem::path& path) {
    import_model(detail::MappedFile::open(path), [](std::string_view) { return true; });
  });
}

}  // namespace
}  // namespace lamina::test::onnx::import_test
