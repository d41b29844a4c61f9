#include "lamina/tensor/dtype.h"
#include "lamina/kernel/conv_geometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lamina::dtype_test {
namespace {

TEST(DType, EveryHalfSurvivesTheTripThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const half value{static_cast<std::uint16_t>(bits)};
    const float f = to_float(value);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(to_float(to_half(f)))) << bits;
    } else {
      ASSERT_EQ(to_half(f).bits, bits);
    }
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  EXPECT_EQ(to_half(1.0f + 0x1p-11f).bits, 0x3c00);      // a tie, to even: down
  EXPECT_EQ(to_half(1.0f + 3 * 0x1p-11f).bits, 0x3c02);  // a tie, to even: up
  EXPECT_EQ(to_half(1.0f + 0x1.002p-11f).bits, 0x3c01);  // just above a tie
  EXPECT_EQ(to_half(65519.0f).bits, 0x7bff);             // the largest half
  EXPECT_EQ(to_half(65520.0f).bits, 0x7c00);             // rounds to infinity
  EXPECT_EQ(to_half(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(to_half(0x1p-25f).bits, 0x0000);  // a tie below the smallest subnormal
  EXPECT_EQ(to_half(0x1.8p-25f).bits, 0x0001);
  EXPECT_EQ(to_half(-0.0f).bits, 0x8000);
}

TEST(DType, BfloatRoundsToNearestEven) {
  EXPECT_EQ(to_bfloat16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float f = to_float(bfloat16{static_cast<std::uint16_t>(bits)});
    if (!std::isnan(f)) {
      ASSERT_EQ(to_bfloat16(f).bits, bits);
    }
  }
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(name(DType::boolean), "bool");
  EXPECT_EQ(name(DType::bf16), "bf16");
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(dtype_of<half>), 2u);
  EXPECT_EQ(dtype_of<std::int64_t>, DType::i64);
}

}  // namespace
}  // namespace lamina::dtype_test
