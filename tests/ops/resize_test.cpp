#include "support/windows_reference.h"

namespace lamina::test::resize_test {
namespace {

Tensor ramp(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::from(values, shape);
}
Tensor scales(const std::vector<float>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
Tensor sizes(const Numbers& values) { return Tensor::from(values, {static_cast<std::int64_t>(values.size())}); }

std::vector<double> resized(const Attributes& attributes, const Tensor& x, const Tensor& scale,
                            const Tensor& size = {}) {
  return doubles(evaluate(Op("Resize", attributes), {x, {}, scale, size}));
}

Attributes how(const std::string& mode, const std::string& coordinates = "half_pixel") {
  return {{"mode", mode}, {"coordinate_transformation_mode", coordinates}, {"axes", std::int64_t{0}}};
}

void expect_all(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST(ResizeOps, WhereElementsLie) {
  const Tensor x = ramp({4});
  expect_all(resized(how("linear"), x, scales({2})), {0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3});
  expect_all(resized(how("linear", "align_corners"), x, {}, sizes({7})), {0, 0.5, 1, 1.5, 2, 2.5, 3});
  expect_all(resized(how("linear", "asymmetric"), x, scales({2})), {0, 0.5, 1, 1.5, 2, 2.5, 3, 3});
  expect_all(resized(how("linear", "pytorch_half_pixel"), x, {}, sizes({1})), {0});
  expect_all(resized(how("cubic", "pytorch_half_pixel"), x, scales({0.3F})), {0});  // one of 1.2
  expect_all(resized(how("linear"), x, {}, sizes({1})), {1.5});
  expect_all(resized(how("linear", "half_pixel_symmetric"), x, scales({0.6F})), {2.0 / 3, 7.0 / 3});
}

TEST(ResizeOps, NearestByEachRule) {
  const auto rule = [](const std::string& name) {
    Attributes attributes = how("nearest");
    attributes.push_back({"nearest_mode", name});
    return attributes;
  };
  const Tensor x = ramp({2});  // seen at -0.25, 0.25, 0.75, 1.25
  expect_all(resized(rule("floor"), x, scales({2})), {0, 0, 0, 1});
  expect_all(resized(rule("ceil"), x, scales({2})), {0, 1, 1, 1});
  expect_all(resized(rule("round_prefer_floor"), ramp({4}), scales({0.5F})), {0, 2});
  expect_all(resized(rule("round_prefer_ceil"), ramp({4}), scales({0.5F})), {1, 3});
  // 5 / (10 / 14) is 7 but for its last bit.
  Attributes asymmetric = rule("floor");
  asymmetric[1].second = std::string("asymmetric");
  expect_all(resized(asymmetric, ramp({14}), {}, sizes({10})), {0, 1, 2, 4, 5, 7, 8, 9, 11, 12});
}

TEST(ResizeOps, CubicKeepsLinesAndItsEnds) {
  Attributes attributes = how("cubic");
  attributes.push_back({"cubic_coeff_a", -0.5});
  const auto found = resized(attributes, ramp({8}), scales({2}));
  for (std::size_t i = 4; i < 12; ++i) EXPECT_NEAR(found[i], (static_cast<double>(i) + 0.5) / 2 - 0.5, 1e-6);
  attributes.push_back({"exclude_outside", std::int64_t{1}});
  expect_all(resized(attributes, Tensor::from(std::vector<float>{2, 2, 2}, {3}), scales({2})), {2, 2, 2, 2, 2, 2});
}

TEST(ResizeOps, AntialiasSeesEveryElement) {
  Attributes attributes = how("linear");
  attributes.push_back({"antialias", std::int64_t{1}});
  expect_all(resized(attributes, ramp({4}), {}, sizes({1})), {1.5});
  // A filter of 4 elements to either side, which weigh 7, 5, 3 and 1 of 32.
  const Tensor x = Tensor::from(std::vector<float>{0, 0, 0, 32, 0, 0, 0, 0}, {8});
  expect_all(resized(attributes, x, {}, sizes({2})), {5, 3});
}

TEST(ResizeOps, SeveralAxesAndOneRatio) {
  const Tensor x = ramp({1, 1, 4, 6});
  const auto shape = [&](const std::string& policy) {
    const Attributes attributes = {{"axes", Numbers{2, -1}}, {"keep_aspect_ratio_policy", policy}};
    return evaluate(Op("Resize", attributes), {x, {}, {}, sizes({8, 18})}).shape();
  };
  EXPECT_EQ(shape("stretch"), (Shape{1, 1, 8, 18}));
  EXPECT_EQ(shape("not_larger"), (Shape{1, 1, 8, 12}));
  EXPECT_EQ(shape("not_smaller"), (Shape{1, 1, 12, 18}));
  EXPECT_EQ(evaluate(Op("Resize"), {ramp({1, 10}), {}, scales({1, 2.3F})}).shape(), (Shape{1, 23}));
  EXPECT_EQ(evaluate(Op("Upsample"), {x, scales({1, 1, 2, 1.5F})}).shape(), (Shape{1, 1, 8, 9}));
  const Expanded same(Op("Resize", {{"mode", std::string("linear")}}), {x, {}, scales({1, 1, 1, 1})}, {0});
  EXPECT_EQ(same.computed(), 0);
}

TEST(ResizeOps, CropsAndWhatIsOutside) {
  for (const std::string mode : {"linear", "nearest"}) {
    Attributes attributes = how(mode, "tf_crop_and_resize");
    attributes.push_back({"extrapolation_value", 9.0});
    const Tensor roi = scales({0.5F, 1.5F});
    expect_all(doubles(evaluate(Op("Resize", attributes), {ramp({5}), roi, {}, sizes({5})})), {2, 3, 4, 9, 9});
  }
}

TEST(ResizeOps, WhatDoesNotFitIsRefused) {
  const Tensor x = ramp({1, 1, 4, 4});
  EXPECT_EQ(refusal(Op("Resize"), {x}), "Resize: expected scales or sizes for 4 dimensions, got 0 scales and 0 sizes");
  EXPECT_EQ(refusal(Op("Resize"), {x, {}, scales({1, 1, 1e30F, 1})}), "Resize: cannot make an extent of 4e+30");
  EXPECT_EQ(refusal(Op("Resize"), {x, {}, scales({1, 1, -1, 1})}), "Resize: cannot have a scale of -1");
  EXPECT_EQ(refusal(Op("Resize", {{"mode", std::string("area")}}), {x, {}, scales({1, 1, 1, 1})}),
            "Resize: there is no mode \"area\"; there are \"nearest\", \"linear\", \"cubic\"");
  EXPECT_EQ(refusal(Op("Resize", {{"axes", Numbers{2, 2}}}), {x, {}, scales({1, 1})}),
            "Resize: axis 2 is listed twice");
}

TEST(ResizeOps, GridsOfTheIdentitySeeThePicture) {
  const Tensor theta = Tensor::from(std::vector<float>{1, 0, 0, 0, 1, 0}, {1, 2, 3}), x = ramp({1, 2, 3, 4});
  for (const std::int64_t corners : {0, 1}) {
    const Attributes attributes = {{"align_corners", corners}};
    const Tensor grid = evaluate(Op("AffineGrid", attributes), {theta, sizes({1, 2, 3, 4})});
    EXPECT_EQ(grid.shape(), (Shape{1, 3, 4, 2}));
    expect_close(evaluate(Op("GridSample", attributes), {x, grid}), x.shape(), doubles(x), 1e-5, "identity");
  }
  const Tensor solid = ramp({1, 2, 3, 4, 2}),
               still = Tensor::from(std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, {1, 3, 4});
  const Tensor in_space = evaluate(Op("AffineGrid"), {still, sizes({1, 2, 3, 4, 2})});
  EXPECT_EQ(in_space.shape(), (Shape{1, 3, 4, 2, 3}));
  expect_close(evaluate(Op("GridSample"), {solid, in_space}), solid.shape(), doubles(solid), 1e-5,
               "in three dimensions");
  EXPECT_EQ(refusal(Op("AffineGrid"), {theta, sizes({1})}),
            "AffineGrid: expected a size [N, C, H, W] or [N, C, D, H, W]");
  EXPECT_EQ(refusal(Op("GridSample"), {x, x}),
            "GridSample: expected operands [N, C, H, W] and [N, OH, OW, 2], or [N, C, D, H, W] and "
            "[N, OD, OH, OW, 3], got [1, 2, 3, 4] and [1, 2, 3, 4]");
}

}  // namespace
}  // namespace lamina::test::resize_test
