// Codes of products in two operations: the formula's, for every code of the image and of the factor.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "lamina/kernel/rules/eight_bits.h"

namespace lamina::test::product_slopes_test {
namespace {

/// As a GPU computes it.
std::int32_t code_by_slope(int x, float slope, DType type, const Quantization& product) {
  const float sum = std::fma(static_cast<float>(x), slope, 12582912.0f);
  const int low = type == DType::u8 ? 0 : -128;
  return std::clamp(static_cast<int>(sum - 12582912.0f) + product.zero_point, low, low + 255);
}

void expect_codes(DType type, const Quantization& image, const Quantization& factors, const Quantization& product) {
  const auto slopes = detail::product_slopes(type, image, factors, product);
  ASSERT_TRUE(slopes) << image.scale << ' ' << factors.scale << ' ' << product.scale;
  const std::vector<float> x = detail::numbers_of(type, image), by = detail::numbers_of(type, factors);
  for (std::size_t f = 0; f < by.size(); ++f) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const int code = type == DType::u8 ? static_cast<int>(i) : static_cast<std::int8_t>(i);
      ASSERT_EQ(code_by_slope(code - image.zero_point, (*slopes)[f], type, product),
                detail::code_of(x[i] * by[f], product, type))
          << "factor " << f << ", image " << i << ", scales " << image.scale << ' ' << factors.scale << ' '
          << product.scale << ", zero points " << image.zero_point << ' ' << factors.zero_point << ' '
          << product.zero_point;
    }
  }
}

TEST(ProductSlopes, GiveTheFormulasCodes) {
  std::mt19937 random(1);
  const auto any = [&](double low, double high) {
    return static_cast<float>(std::uniform_real_distribution(low, high)(random));
  };
  for (int i = 0; i < 60; ++i) {
    const DType type = i % 2 == 0 ? DType::u8 : DType::i8;
    const auto zero = [&] { return std::uniform_int_distribution(0, 255)(random) - (type == DType::u8 ? 0 : 128); };
    const Quantization image = {std::exp(any(-5, 1)), zero()}, factors = {any(0.001, 0.006), zero()};
    expect_codes(type, image, factors, {image.scale * any(0.05, 1.2), zero()});
  }
}

/// Halves everywhere, that are rounded to even before the zero point is added.
TEST(ProductSlopes, RoundHalvesToEven) {
  for (const std::int32_t zero : {0, 3, 128}) {
    for (const float scale : {0x1p-5f, 0x1p-7f, 0x1p-8f, 0x1p-12f})
      expect_codes(DType::u8, {0x1p-7f, 4}, {0x1p-8f, zero}, {scale, zero});
  }
}

/// Of products far beyond the codes; and of round scales, where two products are halves but for the formula's
/// roundings, which take one up and the other down.
TEST(ProductSlopes, AreNotAlwaysThere) {
  EXPECT_FALSE(detail::product_slopes(DType::u8, {1, 0}, {1, 0}, {1e-6f, 0}));
  EXPECT_FALSE(detail::product_slopes(DType::u8, {0.03f, 12}, {0.0039f, 0}, {0.011f, 19}));
}

}  // namespace
}  // namespace lamina::test::product_slopes_test
