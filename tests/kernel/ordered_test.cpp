// What is along a dimension in order: the largest elements, running sums and products.

#include <numeric>

#include "support/problem_data.h"

namespace lamina::test::ordered_test {
namespace {

using Values = std::vector<double>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

void check_topk(const Tensor& x, const TopKProblem& problem, Device device) {
  const Values values = doubles(x);
  Shape output = x.shape();
  output.set(problem.dim, problem.k);
  const std::int64_t extent = x.shape()[problem.dim];
  std::int64_t inner = 1;
  for (int d = problem.dim + 1; d < static_cast<int>(x.shape().rank()); ++d) inner *= x.shape()[d];
  Values expected(at(output.numel()));
  for (std::int64_t line = 0; extent > 0 && line < x.numel() / extent; ++line) {
    const std::int64_t first = line / inner * extent * inner + line % inner;
    std::vector<std::int64_t> order(at(extent));
    std::iota(order.begin(), order.end(), 0);
    const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const double va = values[at(first + a * inner)], vb = values[at(first + b * inner)];
      return problem.largest ? less(vb, va) : less(va, vb);
    });
    for (std::int64_t i = 0; i < problem.k; ++i) {
      const std::int64_t to = line / inner * problem.k * inner + line % inner + i * inner;
      expected[at(to)] = static_cast<double>(order[at(i)]);
    }
  }
  const std::string what = detail::concat(problem.largest ? "largest " : "smallest ", problem.k, " of ", x.shape(),
                                          " along ", problem.dim, ", ", x.dtype(), " on ", device);
  const ProblemRun<TopKProblem> run(problem, {x}, output, DType::i64, device);
  ASSERT_TRUE(run.taken()) << what;
  expect_equal(run.run(), expected, what);
}

void check_topk(const Tensor& x, int dim, std::int64_t k, Device device) {
  for (const bool largest : {true, false}) {
    check_topk(x, {dim, k, largest}, device);
  }
}

TEST(TopK, OrdersByValueThenPlace) {
  for (const Device device : devices_here()) {
    check_topk(draw_floats({1}, 1), 0, 1, device);
    check_topk(draw_floats({5, 7}, 1), 1, 3, device);
    check_topk(draw_floats({5, 7}, 1), 1, 0, device);
    check_topk(draw_floats({4, 70, 3}, 1), 1, 70, device);
    check_topk(draw_floats({3, 1000}, 1), 1, 5, device);
    check_topk(draw_floats({2, 2049}, 1), 1, 2049, device);
    check_topk(draw_floats({2, 9000}, 1), 1, 300, device);
    check_topk(draw_floats({9000, 2}, 1), 0, 5000, device);
    check_topk(Tensor::zeros({3, 100}), 1, 10, device);  // all are equal
    check_topk(Tensor::zeros({2, 5000}), 1, 3000, device);
    check_topk(draw_floats({2, 300, 37}, 1), 1, 5, device);
    check_topk(draw_floats({700, 37}, 1), 0, 1, device);
    check_topk(draw_whole({1, 20000}, 1, -500, 500, DType::i32), 1, 300, device);  // many are equal to the last
    check_topk(Tensor({0, 5}), 1, 2, device);
    check_topk(draw_whole({3, 6000}, 1, -5, 5, DType::i32), 1, 40, device);
    check_topk(draw_whole({3, 600}, 1, 0, 255, DType::u8), 1, 40, device);
  }
  for (const DType dtype : {DType::i64, DType::u64, DType::f64, DType::i8, DType::u16, DType::f16, DType::bf16}) {
    check_topk(draw_any({3, 50}, 1, dtype), 1, 20, Device::cpu());
  }
}

TEST(TopK, SixteenBitsAndWholeNumbersOnEveryDevice) {
  for (const Device device : devices_here()) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i32, DType::i64, DType::f64}) {
      check_topk(draw_any({4, 33}, 1, dtype), 1, 9, device);
      check_topk(draw_any({2, 5000}, 1, dtype), 1, 9, device);
    }
  }
}

TEST(TopK, NanIsTheLargestAndZerosAreEqual) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from(std::vector<float>{0.0f, -0.0f, NAN, inf, -inf, 0.0f, -NAN, -0.0f, 1, -1, inf}, {11});
  for (const Device device : devices_here()) check_topk(x, 0, 11, device);
  Tensor wide = draw_floats({2, 3000}, 1);
  for (std::int64_t i = 0; i < 12; ++i) wide.values<float>()[at(i * 241)] = x.values<float>()[at(i % 11)];
  for (const Device device : devices_here()) check_topk(wide, 1, 9, device);
  const Tensor limits = Tensor::from(std::vector<std::int64_t>{0, -1, std::numeric_limits<std::int64_t>::min(),
                                                               std::numeric_limits<std::int64_t>::max()},
                                     {4});
  expect_equal(run_problem(TopKProblem{0, 4, true}, {limits}, {4}, DType::i64, Device::cpu()), {3, 0, 1, 2}, "limits");
}

void check_cumulative(const Tensor& x, const CumulativeProblem& problem, Device device) {
  const Values values = doubles(x);
  const std::int64_t extent = x.shape()[problem.dim];
  std::int64_t inner = 1;
  for (int d = problem.dim + 1; d < static_cast<int>(x.shape().rank()); ++d) inner *= x.shape()[d];
  std::vector<Truth> truth(values.size());
  for (std::int64_t line = 0; extent > 0 && line < x.numel() / extent; ++line) {
    double running = problem.product ? 1 : 0, magnitude = 0;
    for (std::int64_t i = 0; i < extent; ++i) {
      const std::int64_t step = problem.reverse ? extent - 1 - i : i;
      const std::size_t to = at(line / inner * extent * inner + line % inner + step * inner);
      const double before = running;
      running = problem.product ? running * values[to] : running + values[to];
      magnitude += problem.product ? 0 : std::abs(values[to]);
      const double value = problem.exclusive ? before : running;
      const double bound = 2 * rounding(x.dtype()) * std::abs(value) + 1e-7 * magnitude;
      truth[to] = {value, is_float(x.dtype()) ? bound : 0};
    }
  }
  const std::string what = detail::concat(x.shape(), " along ", problem.dim, ", exclusive ", problem.exclusive,
                                          ", reverse ", problem.reverse, ", ", x.dtype(), " on ", device);
  const ProblemRun<CumulativeProblem> run(problem, {x}, x.shape(), x.dtype(), device);
  ASSERT_TRUE(run.taken()) << what;
  expect_near(run.run(), truth, what);
}

TEST(Cumulative, EveryWayAlongEveryDimension) {
  for (const Device device : devices_here()) {
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        for (const Shape& shape : {Shape{1}, Shape{3000}, Shape{5, 70, 130}, Shape{2, 0, 3}, Shape{2, 1025, 2}}) {
          for (int dim = 0; dim < static_cast<int>(shape.rank()); ++dim) {
            const CumulativeProblem problem = {dim, exclusive, reverse};
            for (const DType dtype : float_types(device))
              check_cumulative(draw_floats(shape, 1, dtype), problem, device);
            for (const DType dtype : {DType::i32, DType::i64}) {
              check_cumulative(draw_whole(shape, 1, -9, 9, dtype), problem, device);
            }
          }
        }
        const CumulativeProblem product = {1, exclusive, reverse, true};
        check_cumulative(draw_floats({4, 20}, 1), product, device);
        check_cumulative(draw_whole({4, 20, 3}, 1, -2, 3), product, device);
      }
    }
  }
  check_cumulative(draw_floats({3, 500}, 1, DType::f64), {1}, Device::cpu());
}

TEST(Cumulative, WholeNumbersWrapAndNanStays) {
  for (const Device device : devices_here()) {
    const std::int32_t most = std::numeric_limits<std::int32_t>::max();
    const Tensor x = Tensor::from(std::vector<std::int32_t>{most, 1, 1}, {3});
    expect_equal(run_problem(CumulativeProblem{}, {x}, {3}, DType::i32, device), {0x1p31 - 1, -0x1p31, 1 - 0x1p31},
                 "wrap");
    const Tensor y = Tensor::from(std::vector<float>{1, NAN, 2}, {3});
    expect_equal(run_problem(CumulativeProblem{}, {y}, {3}, DType::f32, device), {1, nan_value, nan_value}, "NaN");
  }
}

}  // namespace
}  // namespace lamina::test::ordered_test
