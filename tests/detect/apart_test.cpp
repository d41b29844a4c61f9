// Networks of which a run says how many things there are: boxes, scores and classes are three outputs.

#include <gtest/gtest.h>

#include <tuple>

#include "detect/detectors.h"
#include "lamina/ops/op.h"
#include "support/file_test.h"

namespace lamina::test {
namespace {

TEST(Detect, BoxesScoresAndClassesMayBeThreeOutputs) {
  const Detections got = detect("apart"), same = detect("end2end");
  ASSERT_EQ(got.found.size(), same.found.size());
  for (std::size_t i = 0; i < got.found.size(); ++i) {
    const Detection &a = got.found[i], &b = same.found[i];
    EXPECT_EQ(std::tie(a.label, a.score, a.box.left, a.box.top), std::tie(b.label, b.score, b.box.left, b.box.top))
        << i;
    EXPECT_EQ(std::tie(a.box.right, a.box.bottom), std::tie(b.box.right, b.box.bottom)) << i;
  }
  EXPECT_EQ(detect("apart", {.confidence = 0}).candidates, detect("end2end", {.confidence = 0.2}).candidates);
  EXPECT_TRUE(detect("apart", {.confidence = 1}).found.empty());
  Model model = load_model(golden + "apart.onnx");
  const Detector detector(model);
  EXPECT_EQ(detector.task(), "detect");
  EXPECT_EQ(detector.input_shape(), (Shape{1, 3, 64, 96}));
  EXPECT_EQ(detector.names().size(), 91u);
  EXPECT_EQ(detector.name(1), "person");
  EXPECT_EQ(detector.name(90), "toothbrush");
  model.labels = {"none", "cat", "dog"};
  EXPECT_EQ(Detector(model).name(2), "dog");
  model.metadata["task"] = "pose";
  expect_error([&] { const Detector refused(model); }, {"[20, 4]", "task pose"});
}

TEST(Detect, NothingFoundIsAnAnswer) {
  Model model = load_model(golden + "apart.onnx"), none;
  for (const Graph::Node& node : model.graph.nodes()) {
    std::vector<lamina::Value> inputs;
    for (const int i : node.inputs) inputs.push_back({i});
    const auto most = [] { return std::make_shared<Constant>(Tensor::from(std::vector{2.0f}, {})); };
    if (node.module == nullptr) none.graph.input(node.name, *node.shape);
    if (node.module != nullptr) none.graph.add(node.name, node.name == "least" ? most() : node.module, inputs);
  }
  for (const int node : model.graph.outputs()) none.graph.output({node});
  EXPECT_EQ(Detector(none).detect(picture("photo"), {.confidence = 0}).candidates, 0);
}

}  // namespace
}  // namespace lamina::test
