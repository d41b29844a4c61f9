#include "support/windows_reference.h"

namespace lamina::test::move_test {
namespace {

/// 0, 1, 2, 3, 4 with `before` and `after` around them.
std::vector<double> padded(const std::string& mode, std::int64_t before, std::int64_t after) {
  const Tensor x = Tensor::from(std::vector<float>{0, 1, 2, 3, 4}, {5});
  return doubles(evaluate(Op("Pad", {{"mode", mode}}), {x, Tensor::from(Numbers{before, after}, {2})}));
}

using Row = std::vector<double>;

// What numpy.pad makes of the part that is left, and ONNX Runtime of the whole.
TEST(MoveOps, WhatNegativePadsCutOffIsNotRepeated) {
  EXPECT_EQ(padded("wrap", 2, -1), (Row{2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(padded("wrap", -2, 4), (Row{2, 3, 4, 2, 3, 4, 2}));
  EXPECT_EQ(padded("reflect", 1, -3), (Row{1, 0, 1}));
  EXPECT_EQ(padded("reflect", -3, 1), (Row{3, 4, 3}));
  EXPECT_EQ(padded("edge", -4, 2), (Row{4, 4, 4}));
  EXPECT_EQ(padded("constant", -4, 2), (Row{4, 0, 0}));
  EXPECT_EQ(padded("wrap", -2, -3), Row{});
  const Tensor x = Tensor::zeros({5});
  EXPECT_EQ(refusal(Op("Pad", {{"mode", std::string("edge")}}), {x, Tensor::from(Numbers{-5, 1}, {2})}),
            "Pad: there is nothing to repeat in input [5] with pads -5 and 1");
}

// As the standard and ONNX Runtime have it: what goes backwards begins with the axis at the latest. NumPy's is empty
// there.
TEST(MoveOps, SlicesBeginAndEndWithTheAxis) {
  const auto sliced = [](std::int64_t extent, std::int64_t start, std::int64_t end, std::int64_t step) {
    Tensor x({extent});
    for (std::int64_t i = 0; i < extent; ++i) x.values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
    const auto number = [](std::int64_t value) { return Tensor::from(Numbers{value}, {1}); };
    return doubles(evaluate(Op("Slice"), {x, number(start), number(end), number(0), number(step)}));
  };
  EXPECT_EQ(sliced(4, -9, -1000, -1), Row{0});
  EXPECT_EQ(sliced(1, -5, -1000, -2), Row{0});
  EXPECT_EQ(sliced(4, -1, -1000, -1), (Row{3, 2, 1, 0}));
  EXPECT_EQ(sliced(4, 1000, 1, -2), Row{3});
  EXPECT_EQ(sliced(4, -9, 9, 3), (Row{0, 3}));
  EXPECT_EQ(sliced(4, 9, 1000, 1), Row{});
  EXPECT_EQ(sliced(0, -1, -1000, -1), Row{});
}

}  // namespace
}  // namespace lamina::test::move_test
