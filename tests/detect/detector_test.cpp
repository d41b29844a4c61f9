// Detectors whose answer is known, against what NumPy, OpenCV and torchvision make of it: make_golden_detect.py.

#include "lamina/detect/detector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <memory>

#include "detect/detectors.h"
#include "lamina/detect/parts.h"
#include "lamina/files/weights.h"
#include "lamina/ops/op.h"
#include "support/file_test.h"

namespace lamina::test::detector_test {
namespace {

/// The same things in the same order, boxes to 0.01 pixels.
void expect_things(const Detections& got, const std::string& name) {
  const Tensor boxes = expected().at(name + ".boxes"), scores = expected().at(name + ".scores");
  const Tensor labels = expected().at(name + ".labels");
  ASSERT_EQ(static_cast<std::int64_t>(got.found.size()), labels.numel());
  ASSERT_GT(labels.numel(), 0);
  for (std::size_t i = 0; i < got.found.size(); ++i) {
    const Detection& thing = got.found[i];
    EXPECT_EQ(thing.label, labels.values<std::int32_t>()[i]) << i;
    EXPECT_EQ(thing.score, scores.values<float>()[i]) << i;
    const float* box = boxes.values<float>().data() + i * 4;
    if (thing.turned) continue;
    EXPECT_NEAR(thing.box.left, box[0], 0.01) << i;
    EXPECT_NEAR(thing.box.top, box[1], 0.01) << i;
    EXPECT_NEAR(thing.box.right, box[2], 0.01) << i;
    EXPECT_NEAR(thing.box.bottom, box[3], 0.01) << i;
  }
}

TEST(Detect, ResizesAsOpenCVDoes) {
  int cases = 0;
  for (const std::string& name : expected().names()) {
    if (!name.starts_with("resize.") || !name.ends_with(".in")) continue;
    const Image photo = picture(name);
    const Image wanted = picture(name.substr(0, name.size() - 2) + "out");
    std::vector<std::uint8_t> got(wanted.rgb.size(), 9);
    ThreadPool threads(2);
    detail::Letterbox(photo.width, photo.height, wanted.width, wanted.height, true).draw(photo, got, threads);
    EXPECT_EQ(got, wanted.rgb) << name;
    ++cases;
  }
  EXPECT_EQ(cases, 10);
}

TEST(Detect, DrawsThePixelsOfPreprocess) {
  ThreadPool threads(1);
  for (const auto& [width, height] : {std::pair(700, 500), {33, 64}, {64, 64}, {5, 900}, {900, 1}}) {
    Image photo{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(3 * width * height))};
    for (std::size_t i = 0; i < photo.rgb.size(); ++i) photo.rgb[i] = static_cast<std::uint8_t>(i * i / 7);
    for (const bool stretched : {false, true}) {
      Preprocess settings = letterbox(64);
      if (stretched) settings.aspect = Aspect::ignored;
      std::vector<std::uint8_t> drawn(3 * 64 * 64);
      detail::Letterbox(width, height, 64, 64, stretched).draw(photo, drawn, threads);
      EXPECT_EQ(resize_and_crop(photo, settings).rgb, drawn) << width << " x " << height;
    }
  }
  Preprocess part = letterbox(64);  // the middle of a larger one
  const Image photo = picture("photo"), whole = resize_and_crop(photo, part);
  part.crop = 20;
  const Image middle = resize_and_crop(photo, part);
  EXPECT_TRUE(std::equal(middle.rgb.begin(), middle.rgb.begin() + 60, whole.rgb.begin() + 3 * (22 * 64 + 22)));
}

TEST(Detect, OddPaddingHasItsOddPixelBehind) {
  const detail::Letterbox box(30, 64, 96, 65, false);  // 30.47 x 65
  EXPECT_EQ(std::pair(box.x.inner, box.y.inner), std::pair(30, 65));
  EXPECT_EQ(std::pair(box.x.before, box.y.before), std::pair(33, 0));
  const detail::Letterbox odd(31, 65, 96, 65, false);  // 65 over, of which 32.5 before
  EXPECT_EQ(odd.x.before, 32);
  const detail::Letterbox thin(1, 3000, 96, 64, false);
  EXPECT_EQ(std::pair(thin.x.inner, thin.y.inner), std::pair(1, 64));
}

TEST(Detect, RawBoxesGoThroughNms) {
  expect_things(detect("raw"), "raw");
  expect_things(detect("raw", {}, "wide"), "wide");
  expect_things(detect("raw", {.iou = 0.2, .across_classes = true}), "across");
}

TEST(Detect, ObjectnessIsAFactorOfAllScores) { expect_things(detect("objectness"), "objectness"); }

TEST(Detect, WithoutMetadataTheShapesTell) {
  const Detector detector(load_model(golden + "bare.onnx"));
  EXPECT_EQ(detector.task(), "detect");
  EXPECT_EQ(detector.names(), (std::vector<std::string>{"class 0", "class 1", "class 2"}));
  EXPECT_EQ(detector.name(2), "class 2");
  const Image photo = picture("photo");
  for (const int label : {3, 1000, -1})
    expect_error([&] { (void)detector.detect(photo, {.classes = {label}}); }, {"classes: the model's are 0 to 2"});
  expect_things(detector.detect(picture("photo")), "raw");
}

TEST(Detect, AnOpenSizeIsThatOfTheMetadata) {
  const Model model = load_model(golden + "open.onnx");
  EXPECT_EQ(Detector(model).input_shape(), (Shape{1, 3, 64, 96}));
  EXPECT_EQ(Detector(model, {.size = 160}).input_shape(), (Shape{1, 3, 160, 160}));
  expect_things(detect("open"), "raw");
}

TEST(Detect, NamesAreThoseOfTheMetadata) {
  const Detector detector(load_model(golden + "raw.onnx"));
  EXPECT_EQ(detector.names(), (std::vector<std::string>{"cat", "it's", "dog"}));
  EXPECT_EQ(detector.input_shape(), (Shape{1, 3, 64, 96}));
}

TEST(Detect, MasksAreThePrototypes) {
  const Detections got = detect("segment");
  expect_things(got, "segment");
  const Tensor masks = expected().at("segment.masks");  // [things, height, width]
  for (std::size_t i = 0; i < got.found.size(); ++i) {
    const std::vector<std::uint8_t> mask = got.found[i].mask->pixels();
    const std::uint8_t* wanted = masks.values<std::uint8_t>().data() + i * mask.size();
    std::int64_t both = 0, either = 0;
    for (std::size_t k = 0; k < mask.size(); ++k) both += mask[k] & wanted[k], either += mask[k] | wanted[k];
    EXPECT_GE(static_cast<double>(both), 0.999 * static_cast<double>(either)) << i;
  }
  EXPECT_FALSE(detect("segment", {.masks = false}).found[0].mask.has_value());
}

TEST(Detect, PointsAreOfThePhotograph) {
  const Detections got = detect("pose");
  expect_things(got, "pose");
  const Tensor points = expected().at("pose.points");  // [things, 5, 3]
  const float* wanted = points.values<float>().data();
  for (const Detection& thing : got.found) {
    ASSERT_EQ(thing.points.size(), 5u);
    for (const Keypoint& p : thing.points) {
      EXPECT_NEAR(p.x, *wanted++, 0.01);
      EXPECT_NEAR(p.y, *wanted++, 0.01);
      EXPECT_EQ(p.score, *wanted++);
    }
  }
}

TEST(Detect, TurnedBoxesOverlapAsTheirGaussians) {
  const Detections got = detect("obb");
  expect_things(got, "obb");
  const Tensor turned = expected().at("obb.turned");  // [things, 5]
  const float* wanted = turned.values<float>().data();
  for (const Detection& thing : got.found) {
    const TurnedBox& box = thing.turned.value();
    for (const float value : {box.x, box.y, box.width, box.height, box.angle}) EXPECT_NEAR(value, *wanted++, 0.01);
    const std::vector<float> corners = box.corners();
    EXPECT_NEAR(std::hypot(corners[0] - corners[2], corners[1] - corners[3]), box.height, 1e-3);
    EXPECT_EQ(thing.box.left, std::min({corners[0], corners[2], corners[4], corners[6]}));
  }
}

TEST(Detect, EndToEndAnswersAreTakenAsTheyAre) {
  expect_things(detect("end2end"), "end2end");
  expect_things(detect("queries"), "queries");
  expect_things(detect("queries_by_class"), "queries_by_class");
}

TEST(Detect, ClassesAndMostAreHeld) {
  const Detections all = detect("raw"), dogs = detect("raw", {.classes = {2}}), two = detect("raw", {.most = 2});
  EXPECT_EQ(static_cast<std::ptrdiff_t>(dogs.found.size()), std::ranges::count(all.found, 2, &Detection::label));
  ASSERT_EQ(two.found.size(), 2u);
  EXPECT_EQ(two.found[1].score, all.found[1].score);
}

TEST(Detect, AModelFileKeepsWhatTheExporterNoted) {
  const TemporaryDirectory dir;
  Model model = load_model(golden + "pose.onnx");
  save_model(dir / "pose.safetensors", model);
  EXPECT_EQ(load_model(dir / "pose.safetensors").metadata, model.metadata);
  expect_things(Detector(load_model(dir / "pose.safetensors")).detect(picture("photo")), "pose");
}

TEST(Detect, WhatIsNoDetectorIsNamed) {
  const auto refused = [](const std::string& file, const std::string& key, const std::string& value,
                          std::initializer_list<std::string> words) {
    Model model = load_model(golden + file + ".onnx");
    model.metadata[key] = value;
    model.labels.clear();  // what loading read of the notes
    expect_error([&] { const Detector detector(model); }, words);
  };
  refused("raw", "task", "classify", {"task", "classify"});
  refused("raw", "task", "obb", {"[1, 7, 60]", "names 3 classes", "scores of 2"});
  refused("raw", "names", "{0: 'cat'}", {"names 1 classes", "scores of 3"});
  refused("raw", "names", "{0: 7}", {"names"});
  refused("raw", "names", "{0: 'cat'", {"metadata: names"});
  std::string lvis;  // has more names than a file's other objects may have keys
  for (int i = 0; i < 1203; ++i) lvis += (i == 0 ? "{" : ", ") + std::to_string(i) + ": 'a'";
  refused("raw", "names", lvis + '}', {"names 1203 classes", "scores of 3"});
  refused("raw", "args", "{'nms': True}", {"NMS inside", "nms=True"});
  refused("raw", "imgsz", "[640]", {"imgsz", "[640]"});
  refused("segment", "task", "detect", {"[1, 4, 16, 24]"});
  expect_error([] { const Detector detector(load_model(LAMINA_SOURCE_DIR "/weights/digits.safetensors")); },
               {"[1, 10]", "scores of a classifier", "lamina::class_scores"});
}

/// A detector of photographs of that size that answers so, whatever it sees.
Model answering(Tensor answer, std::int64_t size) {
  Model model;
  const lamina::Value x = model.graph.input("images", {1, 3, size, size});
  const lamina::Value none = model.graph.add("none", Op("ReduceMin", {{"keepdims", std::int64_t{0}}}), x);
  const lamina::Value constant = model.graph.add("answer", std::make_shared<Constant>(std::move(answer)), {});
  const lamina::Value zero = model.graph.add(
      "zero", Op("Mul"), {none, model.graph.add("0", std::make_shared<Constant>(Tensor::zeros({})), {})});
  model.graph.output(model.graph.add("sum", Op("Add"), {constant, zero}));
  return model;
}

/// Of 32 x 32 pixels: `value(k)` of box i, [1, 5, boxes].
template <class Value>
Model answering(std::int64_t boxes, const Value& value) {
  Tensor answer({1, 5, boxes});
  for (std::int64_t i = 0; i < 5 * boxes; ++i) {
    answer.values<float>()[static_cast<std::size_t>(i)] = value(i % boxes, i / boxes);
  }
  return answering(std::move(answer), 32);
}

TEST(Detect, YoloxIsToldFromYolov5) {
  EXPECT_EQ(Detector(answering(Tensor::zeros({1, 3 * 1344, 8}), 256)).task(), "detect");
  expect_error([] { const Detector detector(answering(Tensor::zeros({1, 1344, 8}), 256)); }, {"[1, 1344, 8]", "YOLOX"});
}

TEST(Detect, ManyCandidatesAreBoundedAndCounted) {
  const Model model = answering(100'000, [](std::int64_t i, std::int64_t k) {
    return k == 4 ? 0.3f + 1e-6f * static_cast<float>(i) : k < 2 ? static_cast<float>(i % 32) : 4.0f;
  });
  const Detections got = Detector(model).detect(picture("photo"));
  EXPECT_EQ(got.candidates, 100'000);
  EXPECT_EQ(got.left_out, 70'000);
  EXPECT_EQ(got.found.front().score, 0.3f + 1e-6f * 99'999.0f);
  EXPECT_LE(got.found.size(), 300u);
}

TEST(Detect, WhatIsNoNumberIsRefused) {
  const Image photo = picture("photo");
  for (const std::int64_t where : {0, 2, 4}) {
    const Model model = answering(40, [&](std::int64_t i, std::int64_t k) {
      return i == 7 && k == where ? std::nanf("") : k == 4 ? 0.5f : 9.0f;
    });
    expect_error([&] { Detector(model).detect(photo); }, {"NaN", "1 of 40"});
  }
}

TEST(Detect, PhotographsOfEveryFormAreTaken) {
  const Detector detector(
      answering(40, [](std::int64_t i, std::int64_t k) { return k == 4 ? 0.9f : 2.0f + static_cast<float>(i); }));
  for (const auto& [width, height] : {std::pair(1, 1), {30'000, 2}, {3, 30'000}}) {
    const Image photo{width, height, std::vector<std::uint8_t>(3 * static_cast<std::size_t>(width * height), 7)};
    const Detections got = detector.detect(photo);
    ASSERT_FALSE(got.found.empty());
    for (const Detection& thing : got.found) {
      EXPECT_GE(thing.box.left, 0);
      EXPECT_LE(thing.box.right, width);
      EXPECT_LE(thing.box.bottom, height);
    }
  }
  expect_error([&] { detector.detect(Image{}); }, {"image"});
}

TEST(Detect, ThreadsAndCopiesMayUseOne) {
  const Detector detector(load_model(golden + "segment.onnx"));
  const Image photo = picture("photo");
  std::vector<std::future<Detections>> calls;
  for (int i = 0; i < 8; ++i)
    calls.push_back(std::async(std::launch::async, [&, detector] { return detector.detect(photo); }));
  for (auto& call : calls) expect_things(call.get(), "segment");
}

TEST(Detect, OptionsOutOfTheirRangeAreRefused) {
  for (const double value : {-0.1, 1.5, std::nan("")}) {
    expect_error([&] { detect("raw", {.confidence = value}); }, {"confidence from 0 to 1"});
    expect_error([&] { detect("raw", {.iou = value}); }, {"iou from 0 to 1"});
  }
  expect_error([] { detect("raw", {.most = 0}); }, {"1 thing or more"});
}

}  // namespace
}  // namespace lamina::test::detector_test
