// Networks of which a run says how many things there are: boxes, scores and classes are three outputs.

#include <gtest/gtest.h>

#include <tuple>

#include "detect/detectors.h"
#include "lamina/detect/parts.h"
#include "lamina/ops/op.h"
#include "support/file_test.h"

namespace lamina::test::apart_test {
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

/// The model that is known, and another output of what each box has.
Model with(const Tensor& each) {
  Model model = load_model(golden + "apart.onnx");
  const Graph& graph = model.graph;
  const auto chosen = static_cast<int>(graph.find("chosen") - graph.nodes().data());
  const lamina::Value all = model.graph.add("all of each", std::make_shared<Constant>(each), {});
  model.graph.output(model.graph.add("each", Op("Gather"), {all, {chosen}}));
  return model;
}

TEST(Detect, PointsAndMasksMayBeOutputsToo) {
  const Image photo = picture("photo");
  const detail::Letterbox way(photo.width, photo.height, 96, 64, false);
  Tensor points({20, 2, 3}), masks = Tensor::zeros({20, 1, 64, 96});
  for (std::size_t i = 0; i < 120; ++i) points.values<float>()[i] = static_cast<float>(20 + i % 40);
  for (std::size_t i = 0; i < 20 * 64 * 96; ++i) masks.values<float>()[i] = i / 96 % 64 < 32 ? 0.75f : 0.25f;
  const Detector pose(with(points)), segment(with(masks));
  EXPECT_EQ(pose.task(), "pose");
  EXPECT_EQ(segment.task(), "segment");
  const Detections got = pose.detect(photo), masked = segment.detect(photo);
  ASSERT_FALSE(got.found.empty());
  ASSERT_EQ(got.found[0].points.size(), 2u);  // of the first of all boxes, which has the best score
  EXPECT_EQ(got.found[0].points[1].x, way.x.held(23));
  EXPECT_EQ(got.found[0].points[1].y, way.y.held(24));
  EXPECT_EQ(got.found[0].points[1].score, 25);
  ASSERT_FALSE(masked.found.empty());
  for (const Detection& thing : masked.found) {  // the upper half, within the box
    const std::vector<std::uint8_t> pixels = thing.mask->pixels();
    const auto half = static_cast<std::size_t>(photo.width * (photo.height / 2 + 1));
    EXPECT_TRUE(std::find(pixels.begin(), pixels.begin() + static_cast<std::ptrdiff_t>(half), 1) != pixels.end());
    EXPECT_EQ(std::count(pixels.begin() + static_cast<std::ptrdiff_t>(half), pixels.end(), 1), 0);
    EXPECT_LE(thing.box.top, static_cast<float>(photo.height) / 2);
  }
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
}  // namespace lamina::test::apart_test
