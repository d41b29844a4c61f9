// Softmax along the last and along other dimensions, whose elements few or many threads of a GPU share.

#include "support/problem_data.h"

namespace lamina::test::softmax_test {
namespace {

std::vector<Truth> reference(const Tensor& input, std::int64_t extent, std::int64_t inner, bool log) {
  const std::vector<double> x = doubles(input);
  std::vector<Truth> truth(x.size());
  const auto each = [&](std::int64_t line, auto visit) {
    for (std::int64_t i = 0; i < extent; ++i) {
      visit(static_cast<std::size_t>((line / inner * extent + i) * inner + line % inner));
    }
  };
  for (std::int64_t line = 0; line < static_cast<std::int64_t>(x.size()) / std::max<std::int64_t>(extent, 1); ++line) {
    double largest = -inf_value, sum = 0;
    each(line, [&](std::size_t at) { largest = std::max(largest, x[at]); });
    each(line, [&](std::size_t at) { sum += std::exp(x[at] - largest); });
    const double rounded = 2 * rounding(input.dtype());
    each(line, [&](std::size_t at) {
      const double y = log ? x[at] - largest - std::log(sum) : std::exp(x[at] - largest) / sum;
      truth[at] = {y, 1e-6 + (1e-5 + rounded) * std::abs(y)};
    });
  }
  return truth;
}

TEST(Softmax, AlongAnyDimension) {
  const std::vector<Shape> shapes = {{1, 1},          {3, 7},         {2, 1000},       {4, 513},    {1, 9000},
                                     {2, 5, 3},       {3, 300, 8},    {1, 3137, 8},    {7, 65, 33}, {2, 64, 1},
                                     {1, 2049, 1, 2}, {2, 3, 40, 50}, {1, 2, 70, 1000}};
  for (const Device device : devices_here()) {
    for (const DType dtype : float_types(device)) {
      for (const Shape& shape : shapes) {
        for (int dim = 0; dim < static_cast<int>(shape.rank()); ++dim) {
          for (const SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
            const std::string what = detail::concat(shape, " along ", dim, ", ", dtype, " on ", device);
            Tensor input = draw_floats(shape, 1, dtype);
            const ProblemRun<SoftmaxProblem> run({.dim = dim, .kind = kind}, {input}, shape, dtype, device);
            ASSERT_TRUE(run.taken()) << what;
            std::int64_t inner = 1;
            for (int d = dim + 1; d < static_cast<int>(shape.rank()); ++d) inner *= shape[d];
            expect_near(run.run(), reference(input, shape[dim], inner, kind == SoftmaxKind::log_softmax), what);
          }
        }
      }
    }
  }
}

/// One NaN makes its line NaN and no other; -Inf weighs nothing.
TEST(Softmax, WhatIsNotFinite) {
  for (const Device device : devices_here()) {
    for (const Shape& shape : {Shape{2, 900, 4}, Shape{2, 5, 4}, Shape{2, 900, 1}}) {
      Tensor input = draw_floats(shape, 1);
      auto values = input.values<float>();
      const auto inner = static_cast<std::size_t>(shape[2]);
      values[inner * 3] = std::numeric_limits<float>::quiet_NaN();
      for (std::size_t i = values.size() / 2; i < values.size() - inner; ++i) {
        values[i] = -std::numeric_limits<float>::infinity();
      }
      const ProblemRun<SoftmaxProblem> run({.dim = 1}, {input}, shape, DType::f32, device);
      const std::vector<double> y = doubles(run.run());
      for (std::size_t i = 0; i < y.size(); ++i) {
        const bool second = i >= y.size() / 2;
        if (!second && i % inner == 0) {
          EXPECT_TRUE(std::isnan(y[i])) << shape << " on " << device << ", element " << i;
        } else if (second) {
          ASSERT_EQ(y[i], i >= y.size() - inner ? 1 : 0) << shape << " on " << device << ", element " << i;
        } else {
          ASSERT_TRUE(y[i] >= 0 && y[i] <= 1) << shape << " on " << device << ", element " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::softmax_test
