#include "lamina/cpu/product/attention.h"

#include "cpu/bf16_engines.h"
#include "support/guarded.h"
#include "support/kernel_data.h"
#include "support/problem_data.h"
#include "support/run_problem.h"

namespace lamina::cpu::bf16::bf16_attention_test {
namespace {

using detail::AttentionExtents;

struct Case {
  std::int64_t images, heads, length, positions, depth, width;
  double scale = 0.125;
  bool causal = false;
  std::int64_t past = 0;
};

AttentionExtents extents(const Case& c) {
  AttentionExtents e;
  e.images = c.images, e.heads = e.groups = c.heads, e.length = c.length, e.positions = c.positions;
  e.depth = c.depth, e.width = c.width, e.scale = c.scale, e.causal = c.causal, e.past = c.past;
  const auto rows = [&](std::int64_t count, std::int64_t width) {
    return detail::RowStrides{c.heads * count * width, count * width, width};
  };
  e.q = rows(c.length, c.depth), e.k = rows(c.positions, c.depth), e.v = rows(c.positions, c.width);
  e.output = rows(c.length, c.width);
  return e;
}

std::vector<float> draw(std::int64_t count, unsigned seed) {
  std::vector<float> values = test::draw(count, test::Values::mixed, seed);
  for (float& v : values) v = to_float(to_bfloat16(v));
  return values;
}
Guarded<bfloat16> narrowed(const std::vector<float>& values) {
  std::vector<bfloat16> narrow;
  for (const float v : values) narrow.push_back(to_bfloat16(v));
  return Guarded<bfloat16>(narrow);
}

struct Operands {
  std::vector<float> q, k, v;
};

Operands draw_operands(const Case& c) {
  const std::int64_t pairs = c.images * c.heads;
  return {draw(pairs * c.length * c.depth, 1), draw(pairs * c.positions * c.depth, 2),
          draw(pairs * c.positions * c.width, 3)};
}

/// All that is read and written stands between guard pages.
std::vector<float> run(const Engine& engine, const Case& c, const Operands& o, int threads) {
  const AttentionKernel kernel = attention_kernel(engine);
  const AttentionExtents e = extents(c);
  Guarded<bfloat16> q = narrowed(o.q), k = narrowed(o.k), v = narrowed(o.v);
  Guarded<bfloat16> output(c.images * c.heads * c.length * c.width);
  Guarded<float> workspace(static_cast<std::int64_t>(attention_workspace(kernel, e, threads) / 4));
  ThreadPool pool(threads);
  const AttentionPointers<bfloat16> pointers = {.q = q.data(), .k = k.data(), .v = v.data(), .output = output.data()};
  attention(kernel, e, pointers, pool, reinterpret_cast<std::byte*>(workspace.data()));
  std::vector<float> result;
  for (const bfloat16 y : output.span()) result.push_back(to_float(y));
  return result;
}

std::vector<double> reference(const Case& c, const Operands& o) {
  const auto at = [](const std::vector<float>& values, std::int64_t i) {
    return static_cast<double>(values[static_cast<std::size_t>(i)]);
  };
  const AttentionExtents e = extents(c);
  std::vector<double> result;
  for (std::int64_t row = 0; row < c.images * c.heads * c.length; ++row) {
    const std::int64_t first = row / c.length * c.positions;
    std::vector<double> weights;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t s = 0; s < e.seen(row % c.length); ++s) {
      double score = 0;
      for (std::int64_t i = 0; i < c.depth; ++i)
        score += at(o.q, row * c.depth + i) * at(o.k, (first + s) * c.depth + i);
      weights.push_back(score * c.scale);
      largest = std::max(largest, weights.back());
    }
    for (double& w : weights) sum += w = std::exp(w - largest);
    for (std::int64_t i = 0; i < c.width; ++i) {
      double value = 0;
      for (std::size_t s = 0; s < weights.size(); ++s) {
        value += weights[s] * at(o.v, (first + static_cast<std::int64_t>(s)) * c.width + i);
      }
      result.push_back(sum == 0 ? 0 : value / sum);
    }
  }
  return result;
}

class CpuBf16Attention : public testing::TestWithParam<Engine> {};

TEST_P(CpuBf16Attention, ComesNearTheFormula) {
  const Case cases[] = {
      {1, 1, 1, 1, 1, 1, 1},
      {2, 3, 17, 33, 64, 64},
      {1, 2, 47, 300, 33, 70},
      {1, 1, 16, 32, 32, 32},
      {1, 1, 31, 256, 24, 9, 0.2},
      {1, 1, 5, 257, 3, 40, -0.4},
      {1, 1, 65, 70, 40, 24, 0.16, true},
      {1, 1, 20, 300, 16, 16, 0.25, true, 270},
      {1, 2, 6, 5, 8, 8, 0.3, true, -3},
      {1, 1, 3, 40, 1000, 5, 0.03},
  };
  for (const Case& c : cases) {
    const Operands o = draw_operands(c);
    const std::vector<double> truth = reference(c, o);
    const std::vector<float> found = run(GetParam(), c, o, 2);
    ASSERT_EQ(found.size(), truth.size());
    for (std::size_t i = 0; i < truth.size(); ++i) {
      ASSERT_NEAR(found[i], truth[i], 0.03 + 4 * std::abs(truth[i]) / 256)
          << c.length << " x " << c.positions << " of " << c.depth << ", element " << i;
    }
  }
}

/// Equal scores: a mean, which shows what a weight's rounding and a lost position would do.
TEST_P(CpuBf16Attention, OfEqualScoresIsTheMean) {
  const Case c = {1, 1, 3, 77, 32, 40};
  Operands o = draw_operands(c);
  std::ranges::fill(o.q, 0.0f);
  const std::vector<float> found = run(GetParam(), c, o, 1);
  for (std::size_t i = 0; i < found.size(); ++i) {
    double mean = 0;
    for (std::size_t s = 0; s < 77; ++s) mean += static_cast<double>(o.v[s * 40 + i % 40]) / 77;
    EXPECT_NEAR(found[i], mean, 1e-5 + std::abs(mean) / 256) << i;
  }
}

TEST_P(CpuBf16Attention, WhatIsNotSeenMayBeNan) {
  for (const std::int64_t past : {0, 200}) {
    const Case c = {1, 1, 70, 70 + past, 16, 16, 0.25, true, past};
    Operands o = draw_operands(c);
    const auto poisoned = static_cast<std::size_t>(past + 37);
    o.k[poisoned * 16 + 3] = o.v[poisoned * 16 + 3] = NAN;
    const std::vector<float> found = run(GetParam(), c, o, 2);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isnan(found[i]), i / 16 >= 37) << i;
  }
}

TEST_P(CpuBf16Attention, ThreadsDoNotChangeABit) {
  const Case c = {2, 3, 100, 270, 40, 40, 0.2, true, 160};
  const Operands o = draw_operands(c);
  EXPECT_EQ(run(GetParam(), c, o, 1), run(GetParam(), c, o, 5));
}

INSTANTIATE_TEST_SUITE_P(Engines, CpuBf16Attention, testing::ValuesIn(test::all_bf16_engines()),
                         [](const auto& engine) { return test::title(engine.param); });

/// Scores so large that what the largest of them was rounded by is hundreds.
TEST(Bf16Attention, ScoresOfAnySizeWeighAtMostOne) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const float magnitude : {1e3f, 1e5f, 1e9f}) {
      std::vector<Tensor> inputs;
      for (unsigned i = 0; i < 3; ++i) {
        std::vector<float> values(2 * 16 * 20);
        for (std::size_t j = 0; j < values.size(); ++j) values[j] = magnitude * std::sin(static_cast<float>(7 * j + i));
        inputs.push_back(Tensor::from(values, {1, 2, 16, 20}).to(dtype));
      }
      const test::RunOptions options = {.precision = dtype == DType::bf16 ? Precision::bf16 : Precision::fp32};
      const Tensor y =
          test::run_problem(AttentionProblem{.scale = 0.3}, inputs, inputs[0].shape(), dtype, Device::cpu(), options);
      const std::vector<double> v = test::doubles(inputs[2]), found = test::doubles(y);
      const auto [low, high] = std::ranges::minmax(v);
      for (const double value : found) ASSERT_TRUE(value >= 1.01 * low && value <= 1.01 * high) << value;
    }
  }
}

}  // namespace
}  // namespace lamina::cpu::bf16::bf16_attention_test
