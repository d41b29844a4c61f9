
#include <cmath>
#include <random>

#include "support/run_problem.h"

namespace lamina::test::softmax_test {
namespace {

void expect_softmax(SoftmaxKind kind, const Tensor& input, int dim, Device device, const RunOptions& options = {}) {
  const Shape& shape = input.shape();
  const std::vector<double> x = doubles(input);
  const std::vector<double> got =
      doubles(run_problem(SoftmaxProblem{dim, kind}, {input}, shape, input.dtype(), device, options));
  const std::int64_t extent = shape[dim];
  std::int64_t inner = 1;
  for (int d = dim + 1; d < static_cast<int>(shape.rank()); ++d) inner *= shape[d];
  const double share = input.dtype() == DType::f32 ? 1e-6 : input.dtype() == DType::f16 ? 1e-3 : 8e-3;
  for (std::int64_t column = 0; column < shape.numel() / std::max<std::int64_t>(extent, 1); ++column) {
    const auto at = [&](std::int64_t i) {
      return static_cast<std::size_t>((column / inner * extent + i) * inner + column % inner);
    };
    double largest = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < extent; ++i) largest = std::max(largest, x[at(i)]);
    for (std::int64_t i = 0; i < extent; ++i) sum += std::exp(x[at(i)] - largest);
    for (std::int64_t i = 0; i < extent; ++i) {
      const double log = x[at(i)] - largest - std::log(sum);
      const double want = kind == SoftmaxKind::softmax ? std::exp(x[at(i)] - largest) / sum : log;
      const std::string what = detail::concat("element ", i, " of column ", column, " of ", shape, ", dim ", dim,
                                              ", kind ", static_cast<int>(kind), ", ", input.dtype(), " on ", device);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got[at(i)])) << what;
      } else if (std::isinf(want)) {
        ASSERT_EQ(got[at(i)], want) << what;
      } else {
        const double spread = kind == SoftmaxKind::softmax ? std::min(std::abs(x[at(i)] - largest), 200.0) + 1 : 1;
        ASSERT_NEAR(got[at(i)], want,
                    share * spread * std::abs(want) + (kind == SoftmaxKind::log_softmax ? share : 1e-7))
            << what;
      }
    }
  }
}

constexpr SoftmaxKind kinds[] = {SoftmaxKind::softmax, SoftmaxKind::log_softmax};

TEST(Softmax, OfEveryKindAlongEveryDimension) {
  const std::vector<Shape> shapes = {{1},       {7},    {3, 1000},  {2, 3, 5, 7}, {2, 19, 130}, {4, 8, 16, 300},
                                     {5, 2049}, {0, 4}, {2, 1, 200}};
  for (const Device device : devices_here()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      if (device.is_cpu() && dtype != DType::f32) continue;
      for (const Shape& shape : shapes) {
        std::mt19937 random(11);
        std::vector<float> values(static_cast<std::size_t>(shape.numel()));
        for (float& v : values) v = std::round(std::normal_distribution<float>(0, 12)(random)) / 4;
        for (int dim = 0; dim < static_cast<int>(shape.rank()); ++dim) {
          for (const SoftmaxKind kind : kinds) expect_softmax(kind, Tensor::from(values, shape).to(dtype), dim, device);
          if (device.is_cpu() || shape.rank() != 4) continue;
          for (const SoftmaxKind kind : kinds) {
            expect_softmax(kind, Tensor::from(values, shape).to(dtype), dim, device,
                           {.inputs = {Layout::nhwc}, .output = Layout::nhwc});
          }
        }
      }
    }
  }
}

TEST(Softmax, OfLargeInfiniteAndNanNumbers) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> rows = {1000, 999,  -1000, 3e38f, -inf, 0,   1,    -inf, -inf,   -inf,
                                   -inf, -inf, inf,   0,     -inf, NAN, 1,    2,    5,      NAN,
                                   0,    0,    0,     0,     -88,  -90, -103, 0,    1e-40f, 2e-40f};
  for (const Device device : devices_here()) {
    for (const SoftmaxKind kind : kinds) {
      expect_softmax(kind, Tensor::from(rows, {10, 3}), 1, device);
      expect_softmax(kind, Tensor::from(rows, {10, 3}), 0, device);
      expect_softmax(kind, Tensor::from(rows, {5, 3, 2}), 1, device);
    }
  }
}

}  // namespace
}  // namespace lamina::test::softmax_test
