#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/conv_cases.h"
#include "support/run_problem.h"

/// Operands of problems, and what came of them beside what should have.
namespace lamina::test {

inline constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
inline constexpr double inf_value = std::numeric_limits<double>::infinity();

inline Tensor draw_floats(const Shape& shape, unsigned seed, DType dtype = DType::f32, Values values = Values::mixed) {
  return Tensor::from(draw(shape.numel(), values, seed), shape).to(dtype);
}

/// Whole numbers in [low, high].
inline Tensor draw_whole(const Shape& shape, unsigned seed, std::int64_t low, std::int64_t high,
                         DType dtype = DType::i64) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int64_t> any(low, high);
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t& v : values) v = any(random);
  return Tensor::from(values, shape).to(dtype);
}

/// Any of u8 or i8.
inline Tensor random_codes(Shape shape, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
  const int low = dtype == DType::u8 ? 0 : -128;
  for (std::int64_t& value : values) value = std::uniform_int_distribution(low, low + 255)(random);
  return Tensor::from(values, shape).to(dtype);
}

/// A byte for each, and what becomes of codes that are looked up in it.
inline std::shared_ptr<const CodeTable> random_table(unsigned seed) {
  CodeTable table;
  std::mt19937 random(seed);
  for (std::uint8_t& byte : table) byte = static_cast<std::uint8_t>(random());
  return std::make_shared<const CodeTable>(table);
}
inline Tensor looked_up(const Tensor& codes, const CodeTable& table) {
  Tensor result = codes.clone();
  auto* byte = static_cast<std::uint8_t*>(result.raw());
  std::transform(byte, byte + result.bytes(), byte, [&](std::uint8_t code) { return table[code]; });
  return result;
}

/// Floats, or small whole numbers, which every type holds.
inline Tensor draw_any(const Shape& shape, unsigned seed, DType dtype) {
  if (is_float(dtype)) return draw_floats(shape, seed, dtype);
  return draw_whole(shape, seed, 0, dtype == DType::boolean ? 1 : 120, dtype);
}

/// Half the distance from 1 to the next number.
inline double rounding(DType dtype) {
  return dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
}

/// A value and how far from it a result may be.
struct Truth {
  double value = 0, bound = 0;
};

/// Stops at the first element that is not where it should be; NaN belongs where NaN is expected and nowhere else.
inline void expect_near(const Tensor& found, const std::vector<Truth>& truth, const std::string& what) {
  const std::vector<double> values = doubles(found);
  ASSERT_EQ(values.size(), truth.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Truth t = truth[i];
    const bool holds = std::isnan(t.value)   ? std::isnan(values[i])
                       : std::isinf(t.value) ? values[i] == t.value
                                             : std::abs(values[i] - t.value) <= t.bound;
    ASSERT_TRUE(holds) << what << ": element " << i << " is " << values[i] << ", expected " << t.value << " within "
                       << t.bound;
  }
}

inline void expect_equal(const Tensor& found, const std::vector<double>& expected, const std::string& what) {
  std::vector<Truth> truth;
  for (const double value : expected) truth.push_back({value, 0});
  expect_near(found, truth, what);
}

/// A GPU keeps 16-bit floats, the CPU need not.
inline std::vector<DType> float_types(Device device) {
  if (device.is_cuda()) return {DType::f32, DType::f16, DType::bf16};
  return {DType::f32};
}

/// Of products of matrices: the CPU multiplies bf16 too.
inline std::vector<DType> product_types(Device device) {
  std::vector<DType> types = float_types(device);
  if (device.is_cpu()) types.push_back(DType::bf16);
  return types;
}

}  // namespace lamina::test
