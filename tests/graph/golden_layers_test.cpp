#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "lamina/lamina.h"

namespace lamina::golden_layers_test {
namespace {

Weights golden_file(const std::string& name) {
  return Weights::open(std::string(LAMINA_TEST_DATA) + "/golden/" + name + ".safetensors");
}

std::vector<Tensor> inputs_of(const Graph& graph, const Weights& golden) {
  std::vector<Tensor> inputs;
  for (const int node : graph.inputs()) inputs.push_back(golden.at(graph.nodes()[static_cast<std::size_t>(node)].name));
  return inputs;
}

void expect_close(const Tensor& actual, const Tensor& expected, const std::string& name) {
  ASSERT_EQ(actual.shape(), expected.shape()) << name;
  for (std::size_t i = 0; i < static_cast<std::size_t>(actual.numel()); ++i) {
    const float a = actual.values<float>()[i], b = expected.values<float>()[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 2e-5f + 2e-5f * std::abs(b);
    ASSERT_TRUE(same) << name << " [" << i << "] is " << a << ", expected " << b;
  }
}

/// What PyTorch computed, for every node with nothing fused, and for the outputs of the compiled plan.
void expect_golden(const std::string& name, std::size_t nodes) {
  const Weights golden = golden_file(name + "-golden");
  const Model model = model_from(golden_file(name));
  EXPECT_TRUE(model.warnings.empty());
  const std::vector<Tensor> inputs = inputs_of(model.graph, golden);
  Plan all = model.graph.compile({.batch = 2, .threads = 2, .keep_all = true});
  all.run(inputs);
  std::size_t compared = 0;
  for (const Graph::Node& node : model.graph.nodes()) {
    if (node.module == nullptr) continue;
    expect_close(all.activation(node.name), golden.at(node.name), node.name);
    ++compared;
  }
  EXPECT_GE(compared, nodes);

  for (const bool fuse : {true, false}) {
    Plan plan = model.graph.compile({.batch = 2, .threads = 2, .fuse = fuse});
    plan.run(inputs);
    for (const std::string& output : plan.output_names()) expect_close(plan.output(output), golden.at(output), output);
  }
}

TEST(GoldenLayers, EveryCombinationOfAttributes) { expect_golden("layers", 150); }
TEST(GoldenLayers, TinyAlexNet) { expect_golden("tiny-alexnet", 15); }
TEST(GoldenLayers, TinyResNet) { expect_golden("tiny-resnet", 20); }

TEST(GoldenLayers, ModelsSurviveBeingSaved) {
  for (const char* name : {"layers", "tiny-alexnet", "tiny-resnet"}) {
    const Weights golden = golden_file(std::string(name) + "-golden");
    Model model = model_from(golden_file(name));
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("lamina-golden-layers-" + std::to_string(::getpid()));
    save_model(path, model);
    const Model again = load_model(path);
    std::filesystem::remove(path);
    Plan plan = again.graph.compile({.batch = 2, .threads = 1});
    plan.run(inputs_of(again.graph, golden));
    for (const std::string& output : plan.output_names()) expect_close(plan.output(output), golden.at(output), output);
  }
}

TEST(GoldenLayers, BatchNormsAndReLUsLeaveNoStepBehind) {
  const Model model = model_from(golden_file("tiny-resnet"));
  Plan plan = model.graph.compile({.batch = 2, .threads = 1});
  const std::string summary = plan.summary();
  EXPECT_NE(summary.find("bn1, relu"), std::string::npos) << summary;
  EXPECT_NE(summary.find("layer1.0.bn1, layer1.0.relu"), std::string::npos) << summary;
  EXPECT_EQ(summary.find("\nbn1"), std::string::npos) << summary;
  EXPECT_NE(summary.find("gate.bn"), std::string::npos) << summary;  // has no convolution before it
}

}  // namespace
}  // namespace lamina::golden_layers_test
