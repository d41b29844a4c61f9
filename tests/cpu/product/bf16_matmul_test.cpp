#include "lamina/cpu/product/matmul.h"

#include <gtest/gtest.h>

#include "cpu/bf16_engines.h"
#include "support/guarded.h"
#include "support/kernel_data.h"

namespace lamina::cpu::bf16::bf16_matmul_test {
namespace {

struct Case {
  std::int64_t batches, m, n, k;
  bool turned_a = false, turned_b = false, shared_b = false;
  double alpha = 1;
};

detail::MatMulExtents extents(const Case& c) {
  detail::MatMulExtents e;
  e.batches = c.batches, e.m = c.m, e.n = c.n, e.k = c.k, e.alpha = c.alpha;
  e.a_row = c.turned_a ? 1 : c.k, e.a_term = c.turned_a ? c.m : 1;
  e.b_term = c.turned_b ? 1 : c.n, e.b_column = c.turned_b ? c.k : 1;
  e.batch_rank = 1, e.extents[0] = c.batches, e.a_strides[0] = c.m * c.k, e.b_strides[0] = c.shared_b ? 0 : c.k * c.n;
  return e;
}

std::vector<bfloat16> draw(std::int64_t count, unsigned seed) {
  std::vector<bfloat16> result;
  for (const float v : test::draw(count, test::Values::mixed, seed)) result.push_back(to_bfloat16(v));
  return result;
}

class CpuBf16MatMul : public testing::TestWithParam<Engine> {};

/// All that is read and written stands between guard pages.
TEST_P(CpuBf16MatMul, IsTheSumOfTheProducts) {
  const Case cases[] = {{1, 1, 1, 1},
                        {3, 17, 33, 64},
                        {2, 33, 70, 37, true},
                        {2, 31, 40, 65, false, true},
                        {3, 5, 7, 1, true, true},
                        {2, 50, 6, 300, false, false, true, -0.5},
                        {1, 15, 129, 31, true, true, false, 2},
                        {40, 3, 4, 5}};
  for (const Case& c : cases) {
    const detail::MatMulExtents e = extents(c);
    const std::vector<bfloat16> a = draw(c.batches * c.m * c.k, 1),
                                b = draw((c.shared_b ? 1 : c.batches) * c.k * c.n, 2);
    std::vector<float> first;
    for (const int threads : {1, 4}) {
      const MatMul<bfloat16> matmul(GetParam(), e);
      Guarded<bfloat16> x(a), y(b), z(c.batches * c.m * c.n);
      Guarded<float> workspace(static_cast<std::int64_t>(matmul.workspace(threads) / sizeof(float)));
      ThreadPool pool(threads);
      matmul(x.data(), y.data(), z.data(), pool, reinterpret_cast<std::byte*>(workspace.data()));
      std::vector<float> found;
      for (const bfloat16 value : z.span()) found.push_back(to_float(value));
      if (threads == 1) first = found;
      ASSERT_EQ(found, first) << "with " << threads << " threads";
    }
    for (std::int64_t i = 0; i < c.batches * c.m * c.n; ++i) {
      const std::int64_t batch = i / (c.m * c.n), row = i / c.n % c.m, column = i % c.n;
      const auto at = e.operands(batch);
      double sum = 0, scale = 0;
      for (std::int64_t t = 0; t < c.k; ++t) {
        const double product =
            static_cast<double>(to_float(a[static_cast<std::size_t>(at.a + row * e.a_row + t * e.a_term)])) *
            static_cast<double>(to_float(b[static_cast<std::size_t>(at.b + t * e.b_term + column * e.b_column)]));
        sum += product, scale += std::abs(product);
      }
      ASSERT_NEAR(first[static_cast<std::size_t>(i)], c.alpha * sum,
                  std::abs(c.alpha) * (1e-5 * scale + std::abs(sum) / 256))
          << c.m << " x " << c.n << " x " << c.k << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, CpuBf16MatMul, testing::ValuesIn(test::all_bf16_engines()),
                         [](const auto& engine) { return test::title(engine.param); });

}  // namespace
}  // namespace lamina::cpu::bf16::bf16_matmul_test
