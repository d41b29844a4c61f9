#include <gtest/gtest.h>

#include "lamina/cpu/conv2d/bf16/moves.h"
#include "support/guarded.h"

namespace lamina::cpu::bf16::bf16_write_test {
namespace {

double exact(Pointwise function, double x) {
  if (function == Pointwise::silu) return x / (1 + std::exp(-x));
  if (function == Pointwise::gelu) return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0);
}

std::vector<float> written(void (*write)(const Write&), const std::vector<float>& sums, Pointwise function) {
  const auto count = static_cast<std::int64_t>(sums.size());
  Guarded<float> bias(whole_lines(count)), from(whole_lines(count));
  std::fill(bias.span().begin(), bias.span().end(), 0.0f);
  std::fill(from.span().begin(), from.span().end(), 0.0f);
  std::copy(sums.begin(), sums.end(), from.data());
  Guarded<bfloat16> output(count);
  write({.sums = from.data(),
         .row = whole_lines(count),
         .bias = bias.data(),
         .output = output.data(),
         .pixel = count,
         .count = 1,
         .filters = static_cast<int>(count),
         .function = function});
  std::vector<float> result;
  for (const bfloat16 y : output.span()) result.push_back(to_float(y));
  return result;
}

/// From the largest to the smallest of both signs: bf16's rounding, 2^-8, and 2^-11 besides.
TEST(CpuBf16Write, FunctionsAreAsExactAsTheirResultsAreStored) {
  std::vector<float> x = {0.0f, -0.0f, 3e38f, -3e38f};
  for (float v = 1e-30f; v<1e30f; v *= v> 0.01f && v < 30.0f ? 1.003f : 1.5f) x.push_back(v), x.push_back(-v);
  for (const Moves& moves : bf16::moves()) {
    for (auto* const write : {moves.write_bf16, moves.write_rounding}) {
      if (write == nullptr || (write == moves.write_rounding && !supports_avx512_bf16())) continue;
      for (const Pointwise function : {Pointwise::silu, Pointwise::gelu, Pointwise::hard_swish}) {
        const std::vector<float> y = written(write, x, function);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double truth = exact(function, x[i]);
          // Below 1e-30 results may be lost; hard_swish near -3 is a difference of its terms.
          const double lost = function == Pointwise::hard_swish ? 3e-7 : 1e-30;
          ASSERT_NEAR(y[i], truth, std::abs(truth) * (0x1p-8 + 0x1p-11) + lost)
              << describe(function).name << " of " << x[i] << ", " << name(moves.set);
        }
      }
    }
  }
}

TEST(CpuBf16Write, FunctionsOfNanAreNanAndOfInfinityInfinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const Moves& moves : bf16::moves()) {
    for (const Pointwise function : {Pointwise::silu, Pointwise::gelu, Pointwise::hard_swish}) {
      const std::vector<float> y =
          written(moves.write_bf16, {std::numeric_limits<float>::quiet_NaN(), inf, 1.0f}, function);
      EXPECT_TRUE(std::isnan(y[0])) << describe(function).name << ", " << name(moves.set);
      EXPECT_EQ(y[1], inf) << describe(function).name << ", " << name(moves.set);
      EXPECT_TRUE(std::isfinite(y[2]));
    }
  }
}

}  // namespace
}  // namespace lamina::cpu::bf16::bf16_write_test
