#include "support/file_test.h"
#include "support/windows_reference.h"

namespace lamina::test::index_test {
namespace {

Tensor whole(const Numbers& values, const Shape& shape) { return Tensor::from(values, shape); }
Tensor floats(const std::vector<float>& values, const Shape& shape) { return Tensor::from(values, shape); }
Attribute number(std::int64_t value) { return value; }

/// The same whether the indices are known, and a table, or looked up in each run.
void expect_both(const Op& op, const std::vector<Tensor>& operands, const Shape& shape,
                 const std::vector<double>& expected, bool second = true) {
  for (const std::set<int>& unknown : {std::set<int>{}, std::set<int>{0}, std::set<int>{0, second ? 1 : 0}}) {
    const Tensor result = Expanded(op, operands, unknown).run();
    EXPECT_EQ(result.shape(), shape);
    expect_equal(result, expected, std::string(op.op()));
  }
}

TEST(IndexOps, GatherTakesSlices) {
  const Tensor x = floats({0, 1, 2, 10, 11, 12}, {2, 3});
  expect_both(Op("Gather", {{"axis", number(1)}}), {x, whole({2, -3, 0, 1}, {2, 2})}, {2, 2, 2},
              {2, 0, 0, 1, 12, 10, 10, 11});
  expect_both(Op("Gather"), {x, whole({-1}, {})}, {3}, {10, 11, 12});
  expect_both(Op("Gather"), {x, whole({}, {0})}, {0, 3}, {});
  EXPECT_EQ(refusal(Op("Gather"), {x, whole({2}, {1})}), "Gather: index 2 is outside of an extent of 2");
  EXPECT_EQ(refusal(Op("Gather", {{"axis", number(2)}}), {x, whole({0}, {1})}), "Gather: there is no axis 2 among 2");
  EXPECT_EQ(refusal(Op("Gather"), {x, floats({0}, {1})}), "Gather: expected indices of whole numbers, got f32");
}

TEST(IndexOps, GatherElementsAndSlicesOfSeveralDimensions) {
  const Tensor x = whole({0, 1, 2, 10, 11, 12}, {2, 3});
  expect_both(Op("GatherElements", {{"axis", number(1)}}), {x, whole({2, -1, 0, 0}, {2, 2})}, {2, 2}, {2, 2, 10, 10});
  expect_both(Op("GatherND"), {x, whole({1, 2, 0, -3}, {2, 2})}, {2}, {12, 0});
  expect_both(Op("GatherND"), {x, whole({1}, {1, 1})}, {1, 3}, {10, 11, 12});
  expect_both(Op("GatherND", {{"batch_dims", number(1)}}), {x, whole({2, 0}, {2, 1})}, {2}, {2, 10});
  EXPECT_EQ(refusal(Op("GatherND"), {x, whole({0, 3}, {1, 2})}), "GatherND: index 3 is outside of an extent of 3");
  EXPECT_EQ(refusal(Op("GatherND"), {x, whole({0, 0, 0}, {3})}),
            "GatherND: indices [3] are for more dimensions than [2, 3] has");
  EXPECT_EQ(refusal(Op("GatherElements"), {x, whole({0}, {1})}),
            "GatherElements: indices [1] do not fit an operand [2, 3]");
}

TEST(IndexOps, ScatterPutsUpdatesIn) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_both(Op("ScatterElements", {{"axis", number(1)}}), {x, whole({0, -1}, {1, 2}), floats({7, 8}, {1, 2})}, {2, 3},
              {7, 2, 8, 4, 5, 6});
  expect_both(Op("ScatterElements", {{"reduction", std::string("add")}}),
              {x, whole({1, 1}, {2, 1}), floats({7, 8}, {2, 1})}, {2, 3}, {1, 2, 3, 19, 5, 6});
  expect_both(Op("ScatterND", {{"reduction", std::string("max")}}), {x, whole({1}, {1, 1}), floats({9, 0, 9}, {1, 3})},
              {2, 3}, {1, 2, 3, 9, 5, 9});
  EXPECT_EQ(refusal(Op("ScatterND", {{"reduction", std::string("mean")}}),
                    {x, whole({1}, {1, 1}), floats({9, 0, 9}, {1, 3})}),
            "ScatterND: there is no reduction \"mean\"; nearest: \"max\", \"min\"");
  EXPECT_EQ(refusal(Op("ScatterND"), {x, whole({1}, {1, 1}), floats({9, 0}, {1, 2})}),
            "ScatterND: expected updates [1, 3], got [1, 2]");
}

/// As x[:, 1:3] = y is exported: every place of a box, in order, some counted from the end; and what only begins so.
TEST(IndexOps, ScatterPutsABoxIn) {
  const Tensor x = whole({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  expect_both(Op("ScatterND"), {x, whole({1, 1, 1, -2, -1, -3, 2, 2}, {2, 2, 2}), whole({50, 60, 90, 100}, {2, 2})},
              {3, 4}, {0, 1, 2, 3, 4, 50, 60, 7, 8, 90, 100, 11});
  expect_both(Op("ScatterND"), {x, whole({0, 1, 1, 1, 2, 1}, {3, 1, 2}), whole({10, 50, 90}, {3, 1})}, {3, 4},
              {0, 10, 2, 3, 4, 50, 6, 7, 8, 90, 10, 11});
  expect_both(Op("ScatterND"), {x, whole({1, 2}, {2, 1}), whole({0, 0, 0, 0, 1, 1, 1, 1}, {2, 4})}, {3, 4},
              {0, 1, 2, 3, 0, 0, 0, 0, 1, 1, 1, 1});
  expect_both(Op("ScatterND"), {x, whole({1, 1, 1, 2, 2, 1, 2, 1}, {2, 2, 2}), whole({50, 60, 90, 100}, {2, 2})},
              {3, 4}, {0, 1, 2, 3, 4, 50, 60, 7, 8, 100, 10, 11});
}

TEST(IndexOps, TopKHasValuesAndPlaces) {
  const Tensor x = floats({3, 1, 2, 5, 9, 5}, {2, 3}), two = whole({2}, {1});
  const auto with_output = [](std::int64_t output) { return Attributes{{"output", output}}; };
  expect_equal(evaluate(Op("TopK", with_output(0)), {x, two}), {3, 2, 9, 5}, "values");
  const Tensor places = evaluate(Op("TopK", with_output(1)), {x, two});
  EXPECT_EQ(places.dtype(), DType::i64);
  expect_equal(places, {0, 2, 1, 0}, "places");
  expect_equal(evaluate(Op("TopK", {{"largest", number(0)}, {"axis", number(0)}}), {x, whole({1}, {1})}), {3, 1, 2},
               "smallest");
  EXPECT_EQ(refusal(Op("TopK"), {x, whole({4}, {1})}), "TopK: there are no 4 elements along axis 1 of [2, 3]");
}

TEST(IndexOps, OneHotCountsFromEitherEnd) {
  const Tensor values = floats({-1, 7}, {2}), depth = whole({3}, {});
  expect_both(Op("OneHot"), {whole({0, -1, 3}, {3}), depth, values}, {3, 3}, {7, -1, -1, -1, -1, 7, -1, -1, -1}, false);
  const Tensor first = evaluate(Op("OneHot", {{"axis", number(0)}}), {whole({1, 2}, {2}), depth, whole({0, 1}, {2})});
  EXPECT_EQ(first.dtype(), DType::i64);
  expect_equal(first, {0, 0, 1, 0, 0, 1}, "axis 0");
  EXPECT_EQ(refusal(Op("OneHot"), {whole({0}, {1}), floats({1e30F}, {}), values}),
            "OneHot: cannot have a depth of 1e+30");
}

TEST(IndexOps, WhereThereIsSomething) {
  const Tensor x = floats({0, 1, 2, 0}, {2, 2});
  const Tensor found = evaluate(Op("NonZero"), {x});
  EXPECT_EQ(found.shape(), (Shape{2, 2}));
  expect_equal(found, {0, 1, 1, 0}, "coordinates");
  const Tensor condition = Tensor::from(std::vector<std::uint8_t>{0, 1}, {2}).to(DType::boolean);
  expect_equal(evaluate(Op("Compress", {{"axis", number(1)}}), {x, condition}), {1, 0}, "columns");
  expect_equal(evaluate(Op("Compress"), {x, condition}), {1}, "elements");
}

/// A picture that rises by 1 a column and 10 a row is between pixels what it would be there.
TEST(IndexOps, BoxesAreSeenBetweenPixels) {
  std::vector<float> rising(2 * 4 * 6);
  for (std::size_t i = 0; i < rising.size(); ++i)
    rising[i] = static_cast<float>(100 * (i / 24) + 10 * (i / 6 % 4) + i % 6);
  const Tensor x = floats(rising, {2, 1, 4, 6}), images = whole({1, 0}, {2});
  const Tensor boxes = floats({0, 0, 8, 4, 2, 2, 6, 6}, {2, 4});
  const Attributes half = {{"output_width", number(2)}, {"sampling_ratio", number(2)}, {"spatial_scale", 0.5}};
  const auto run = [&](const Attributes& attributes) {
    return Expanded(Op("RoiAlign", attributes), {x, boxes, images}, {0, 1, 2}).run();
  };
  // Box 0: y from -0.5 to 1.5 and x from -0.5 to 3.5, samples at y 0 and 1, x 0, 1, 2, 3.
  expect_equal(run(half), {105.5F, 107.5F, 16, 17}, "means");
  Attributes largest = half;
  largest.push_back({"mode", std::string("max")});
  largest.push_back({"coordinate_transformation_mode", std::string("output_half_pixel")});
  EXPECT_EQ(run(largest).shape(), (Shape{2, 1, 1, 2}));
  const Attributes far = {{"spatial_scale", 1e8}};  // of which nothing but a corner is seen
  EXPECT_EQ(run(far).shape(), (Shape{2, 1, 1, 1}));
  const auto with_images = [&](const Tensor& of) { return Expanded(Op("RoiAlign"), {x, boxes, of}, {0, 1, 2}).run(); };
  expect_error([&] { with_images(whole({2, 0}, {2})); }, {"box 0 is of image 2 of 2"});
  EXPECT_EQ(refusal(Op("RoiAlign", {{"sampling_ratio", number(-1)}}), {x, boxes, images}),
            "RoiAlign: cannot have an output of [2, 1, 1, 1] by a sampling_ratio of -1");
}

TEST(ReduceOps, AxesAreAnOperandOrAll) {
  const Tensor x = floats({1, -2, 3, 4, -5, 6}, {2, 3});
  expect_both(Op("ReduceSum"), {x, whole({-1}, {1})}, {2, 1}, {2, 5}, false);
  expect_both(Op("ReduceL1", {{"keepdims", number(0)}}), {x, whole({0}, {1})}, {3}, {5, 7, 9}, false);
  EXPECT_EQ(evaluate(Op("ReduceMax"), {x}).shape(), (Shape{1, 1}));
  expect_equal(evaluate(Op("ReduceMax", {{"keepdims", number(0)}}), {x}), {6}, "all");
  expect_equal(evaluate(Op("ReduceSumSquare", {{"noop_with_empty_axes", number(1)}}), {x}), {1, 4, 9, 16, 25, 36},
               "none");
  expect_equal(evaluate(Op("ReduceMean"), {floats({3}, {})}), {3}, "a scalar");
  EXPECT_EQ(refusal(Op("ReduceSum"), {x, whole({1, -1}, {2})}), "ReduceSum: axis -1 is listed twice");
  EXPECT_EQ(refusal(Op("ReduceSum"), {x, whole({2}, {1})}), "ReduceSum: there is no axis 2 among 2");
}

TEST(ReduceOps, PlacesAndRunningSums) {
  const Tensor x = floats({1, 3, 3, 4, 4, 0}, {2, 3});
  expect_equal(evaluate(Op("ArgMax", {{"axis", number(-1)}}), {x}), {1, 0}, "first");
  expect_equal(evaluate(Op("ArgMax", {{"axis", number(1)}, {"select_last_index", number(1)}}), {x}), {2, 1}, "last");
  expect_equal(evaluate(Op("ArgMin", {{"keepdims", number(0)}}), {x}), {0, 0, 1}, "least");
  expect_equal(evaluate(Op("CumSum"), {x, whole({1}, {})}), {1, 4, 7, 4, 8, 8}, "sums");
  const Attributes backwards = {{"reverse", number(1)}, {"exclusive", number(1)}};
  expect_equal(evaluate(Op("CumSum", backwards), {x, whole({1}, {})}), {6, 3, 0, 4, 0, 0}, "backwards");
  const Tensor bytes = Tensor::from(std::vector<std::uint8_t>{200, 100}, {2});
  expect_equal(evaluate(Op("CumSum"), {bytes, whole({0}, {})}), {200, 44}, "bytes wrap");
  EXPECT_EQ(refusal(Op("CumSum"), {x, floats({1e30F}, {})}), "CumSum: there is no axis 1e+30 among 2");
}

TEST(ReduceOps, GlobalPoolsOfAnyRank) {
  const Tensor x = floats({1, 3, -4, 4, 5, 6}, {1, 2, 3});
  expect_close(evaluate(Op("GlobalAveragePool"), {x}), {1, 2, 1}, {0, 5}, 1e-6, "mean");
  expect_close(evaluate(Op("GlobalMaxPool"), {x}), {1, 2, 1}, {3, 6}, 0, "largest");
  expect_close(evaluate(Op("GlobalLpPool", {{"p", number(3)}}), {x}), {1, 2, 1}, {std::cbrt(92.0), std::cbrt(405.0)},
               1e-6, "norm");
}

}  // namespace
}  // namespace lamina::test::index_test
