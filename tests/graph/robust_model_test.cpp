// Model files under odd locales, with odd numbers and names, and far larger than any network.

#include <ctime>
#include <limits>

#include "lamina/graph/model.h"
#include "lamina/layers/conv2d.h"
#include "support/file_test.h"
#include "support/german.h"
#include "support/networks.h"

namespace lamina::test::robust_model_test {
namespace {

TEST(Model, FilesAreTheSameInEveryLocale) {
  const TemporaryDirectory dir;
  Model model;
  model.graph = small_network();
  model.preprocess = torchvision_imagenet();
  model.preprocess->divisor = 1234.5f;
  save_model(dir / "plain", model);
  const GermanNumbers german;
  save_model(dir / "german", model);
  EXPECT_TRUE(read_file(dir / "german") == read_file(dir / "plain"));
  EXPECT_EQ(load_model(dir / "german").preprocess, model.preprocess);
}

TEST(Model, FilesAreTheSameAfterSetlocale) {
  const TemporaryDirectory dir, locales;
  Model model;
  model.graph = small_network();
  model.preprocess = torchvision_imagenet();
  save_model(dir / "plain", model);
  const GermanProgram german(locales.path());
  if (!german.set()) GTEST_SKIP() << "no German locale can be had here";
  save_model(dir / "german", model);
  EXPECT_TRUE(read_file(dir / "german") == read_file(dir / "plain"));
  EXPECT_EQ(load_model(dir / "german").preprocess, model.preprocess);
}

TEST(Model, TheSmallestNumbersSurvive) {
  const TemporaryDirectory dir;
  Model model;
  model.graph = small_network();
  model.preprocess = Preprocess{.mean = {1e-40f, 0.1f, std::numeric_limits<float>::denorm_min()},
                                .std = {std::numeric_limits<float>::max(), 1, 3e-39f}};
  save_model(dir / "model", model);
  EXPECT_EQ(load_model(dir / "model").preprocess, model.preprocess);
}

TEST(Model, OnlyErrorsLeave) {
  const TemporaryDirectory dir;
  Model model;
  const Value x = model.graph.input("not UTF-8: \xff", {batch, 1, 2, 2});
  model.graph.output(model.graph.add("r", ReLU(), x));
  expect_error([&] { save_model(dir / "model", model); }, {"not UTF-8"});
  expect_error([&] { model.graph.save(dir / "model"); }, {"not UTF-8"});
  expect_error([&] { model.graph.add("n", nullptr, {&x, 1}); }, {"n: ", "module"});
}

/// A file of these nodes, each of which is {"name", "op", "inputs"}.
Weights chain(int count, bool reversed) {
  std::string nodes;
  for (int i = 0; i < count; ++i) {
    const int at = reversed ? count - 1 - i : i;
    const std::string input = at == 0 ? "input" : "n" + std::to_string(at - 1);
    nodes += (i == 0 ? "" : ",") + (R"({"name": "n)" + std::to_string(at)) + R"(", "op": "relu", "inputs": [")" +
             input + R"("]})";
  }
  Weights weights;
  weights.metadata()["lamina.graph"] =
      R"({"version": 1, "inputs": [{"name": "input", "shape": ["N", 4]}], "nodes": [)" + nodes +
      R"(], "outputs": ["n)" + std::to_string(count - 1) + R"("]})";
  return weights;
}

TEST(Model, LoadingTakesTimeInProportion) {
  for (const bool reversed : {false, true}) {
    const std::clock_t start = std::clock();  // of this process alone, however busy the machine is
    const Graph graph = model_from(chain(30'000, reversed)).graph;
    EXPECT_LT(std::clock() - start, 6 * CLOCKS_PER_SEC) << (reversed ? "reversed" : "in order");
    EXPECT_EQ(graph.nodes().size(), 30'001u);
    EXPECT_EQ(graph.nodes()[17].name, "n16");
  }
}

TEST(Model, NodesKeepTheOrderOfTheFileAsFarAsTheyCan) {
  Weights weights;
  const auto relu = [](const std::string& name, const std::string& input) {
    return R"({"name": ")" + name + R"(", "op": "relu", "inputs": [")" + input + R"("]})";
  };
  weights.metadata()["lamina.graph"] =
      R"({"version": 1, "inputs": [{"name": "input", "shape": ["N", 4]}], "nodes": [)" + relu("d", "c") + ',' +
      relu("a", "input") + ',' + relu("c", "b") + ',' + relu("b", "a") + ',' + relu("e", "input") +
      R"(], "outputs": ["d", "e"]})";
  std::vector<std::string> names;
  const Graph graph = model_from(weights).graph;
  for (const Graph::Node& node : graph.nodes()) names.push_back(node.name);
  EXPECT_EQ(names, (std::vector<std::string>{"input", "a", "b", "c", "d", "e"}));
}

TEST(Model, HasLimits) {
  std::string keys;
  for (int i = 0; i < 1100; ++i) keys += R"(, "key)" + std::to_string(i) + R"(": 0)";
  Weights weights;
  weights.metadata()["lamina.graph"] = R"({"version": 1)" + keys + "}";
  expect_error([&] { (void)model_from(weights); }, {"lamina.graph", "more than 1000 keys"});
  weights.metadata()["lamina.graph"] = R"({"version": 1})" + std::string(17 << 20, ' ');
  expect_error([&] { (void)model_from(weights); }, {"lamina.graph", "at most 16777216 bytes"});
  expect_error([&] { (void)model_from(chain(100'001, false)); }, {"lamina.graph", "at most 100000 nodes"});
}

/// Layers "0" to "count - 1" of one channel, and weights for them under names with `prefix` in front.
Graph convolutions(int count) {
  Graph graph;
  Value x = graph.input("input", {batch, 1, 4, 4});
  for (int i = 0; i < count; ++i) {
    x = graph.add(std::to_string(i), Conv2d({.in = 1, .out = 1, .kernel = 1, .bias = false}), x);
  }
  graph.output(x);
  return graph;
}

Weights weights_of(int count, const std::string& prefix) {
  Weights weights;
  for (int i = 0; i < count; ++i) weights.set(prefix + std::to_string(i) + ".weight", Tensor::zeros({1, 1, 1, 1}));
  return weights;
}

TEST(Model, SuggestionsForTheFirstTwentyOnly) {
  Graph graph = convolutions(30);
  try {
    graph.load(weights_of(30, "x"));
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    const std::string_view message = error.what();
    const auto count = [&](std::string_view word) {
      int found = 0;
      for (std::size_t at = 0; (at = message.find(word, at)) != message.npos; ++at) ++found;
      return found;
    };
    EXPECT_EQ(count("missing: "), 30);
    EXPECT_EQ(count("nearest: "), 20);
  }
}

TEST(Model, WeightsOfAnotherNetworkAreSaidInOneLine) {
  Weights others;
  for (const char* name : {"layer.bias", "layer.scale"}) others.set(name, Tensor::zeros({1}));
  try {
    convolutions(30).load(others);
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              std::string("the weights do not fit the graph: none of its 30 parameters is among the 2 of the "
                          "file; there are \"layer.bias\", \"layer.scale\""));
  }
}

TEST(Model, PassesOverWhatWrappersPutBeforeEveryName) {
  for (const std::string prefix : {"module.", "_orig_mod.", "model.", "module.model."}) {
    EXPECT_TRUE(convolutions(3).load(weights_of(3, prefix)).empty()) << prefix;
  }
  expect_error([] { convolutions(3).load(weights_of(3, "backbone.")); },
               {"do not fit the graph: all their names begin with \"backbone.\" and none of the graph's does"});
  // Beside other tensors, and where a layer is of another shape or missing.
  const auto with = [](int count, const std::string& prefix, const std::string& other, const Shape& shape) {
    Weights weights = weights_of(count, prefix);
    weights.set(other, Tensor::zeros(shape));
    return weights;
  };
  expect_error([&] { convolutions(3).load(with(3, "net.backbone.", "head.weight", {1})); },
               {"what fits begins with \"net.backbone.\" and none", "OpenOptions::strip_prefix"});
  expect_error([&] { convolutions(3).load(with(2, "backbone.", "backbone.3.weight", {7})); },
               {"all their names begin with \"backbone.\""});
  expect_error([&] { convolutions(3).load(with(1, "backbone.", "other", {1})); }, {"missing: "});
  // Where the graph's own names begin so, they are its names.
  Graph graph;
  const Value x = graph.input("input", {batch, 1, 4, 4});
  graph.output(graph.add("model.0", Conv2d({.in = 1, .out = 1, .kernel = 1, .bias = false}), x));
  EXPECT_TRUE(graph.load(weights_of(1, "model.")).empty());
}

}  // namespace
}  // namespace lamina::test::robust_model_test
