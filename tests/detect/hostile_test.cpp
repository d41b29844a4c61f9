// Models that claim to be detectors, and answers that would take all time.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>

#include "detect/detectors.h"
#include "lamina/detect/parts.h"
#include "lamina/ops/op.h"
#include "support/file_test.h"

namespace lamina::test::hostile_test {
namespace {

/// An output more, of that shape and type.
void add_output(Model& model, const Shape& shape, DType dtype = DType::f32) {
  const Tensor zeros = Tensor::zeros(shape, dtype);
  model.graph.output(model.graph.add("more" + std::to_string(model.graph.nodes().size()), Constant(zeros), {}));
}

TEST(Detect, MasksAreOfTheOutputThatWasChecked) {
  const Detections two = detect("segment");
  for (const Shape& shape : {Shape{1, 1, 1, 1}, {1, 4, 16, 24}, {1}}) {
    Model model = load_model(golden + "segment.onnx");
    add_output(model, shape);
    const Detections three = Detector(model).detect(picture("photo"));
    ASSERT_EQ(three.found.size(), two.found.size());
    for (std::size_t i = 0; i < two.found.size(); ++i) EXPECT_EQ(three.found[i].mask->runs, two.found[i].mask->runs);
  }
}

TEST(Detect, OutputsOfEveryFormAreTakenOrRefused) {
  int taken = 0;
  for (const char* task : {"detect", "segment", "pose", "obb", "classify", ""}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::f64, DType::i64, DType::u8}) {
      for (const Shape& first :
           {Shape{}, {7}, {1, 7}, {1, 7, 60}, {1, 60, 6}, {2, 39, 60}, {1, 60, 56}, {1, 4, 8, 8}}) {
        for (const Shape& second : {Shape{}, {1, 32, 8, 8}, {1, 32, 8, 4}, {1, 1, 1, 1}, {1, 32, 99, 99}, {1, 32, 8}}) {
          Model model;
          model.graph.input("images", {1, 3, 32, 32});
          model.metadata["task"] = task;
          add_output(model, first, dtype);
          add_output(model, second, dtype);
          try {
            (void)Detector(model).detect(picture("photo"), {.confidence = 0});
            ++taken;
          } catch (const Error&) {
          }
        }
      }
    }
  }
  EXPECT_EQ(taken, 5 * 22);  // whatever their type: they are read as f32
}

TEST(Detect, NoiseIsBoundedAndWorkIsGivenUp) {
  Model model = load_model(golden + "segment.onnx");
  const Detector detector(model);
  std::stop_source stop;
  stop.request_stop();
  expect_error([&] { detector.detect(picture("photo"), {.stop = stop.get_token()}); }, {"stopped"});
  std::atomic<std::int64_t> none = 0;
  const detail::ExportNotes notes(model);
  detail::Head head(notes, detail::resolve(model.graph, {}));
  const std::array<Tensor, 3> outputs = {Tensor::zeros({1, 9, 60}), Tensor::zeros({1, 1, 60}, DType::i64),
                                         Tensor::from(std::vector<float>(4 * 16 * 24, 1.0f), {1, 4, 16, 24})};
  head.values = 9;
  const detail::Answers answers(head, outputs);
  const detail::Letterbox way(96, 64, 96, 64, false);
  const std::array shares = {1.0f, 1.0f, 1.0f, 1.0f};
  expect_error([&] { mask_of(head, answers, shares, {0, 0, 96, 64}, way, {}, none); }, {"noise", "fewer things"});
  expect_error([&] { (void)answers.boxes.at(9, 0); }, {"no number"});
  expect_error([&] { (void)answers.prototypes.part(0, 20, 5); }, {"no number"});
  expect_error([&] { detail::Answers(head, std::span(outputs).first(2)); }, {"output 3"});
}

}  // namespace
}  // namespace lamina::test::hostile_test
