#include "lamina/tensor/dtype.h"

#include <array>

namespace lamina {
namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enum.
constexpr std::array<Row, 13> table = {{{"bool", 1},
                                        {"u8", 1},
                                        {"i8", 1},
                                        {"u16", 2},
                                        {"i16", 2},
                                        {"u32", 4},
                                        {"i32", 4},
                                        {"u64", 8},
                                        {"i64", 8},
                                        {"f16", 2},
                                        {"bf16", 2},
                                        {"f32", 4},
                                        {"f64", 8}}};

}  // namespace

std::size_t size_of(DType dtype) { return table[static_cast<std::size_t>(dtype)].bytes; }

std::string_view name(DType dtype) { return table[static_cast<std::size_t>(dtype)].name; }

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

float to_float(half value) {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Zero and subnormals: mantissa * 2^-24, exact in binary32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

half to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](std::uint32_t rest) { return half{static_cast<std::uint16_t>(sign | rest)}; };

  if (magnitude > 0x7f800000u) return with_sign(0x7e00u | ((magnitude >> 13) & 0x3ffu));  // NaN, made quiet
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 lets the FPU round the value to a multiple of 2^-24, to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;  // ties go to even
  return with_sign((magnitude - (112u << 23) + 0xfffu + odd) >> 13);
}

bfloat16 to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};  // NaN, made quiet
  const std::uint32_t odd = (bits >> 16) & 1u;                                                        // ties go to even
  return {static_cast<std::uint16_t>((bits + 0x7fffu + odd) >> 16)};
}

}  // namespace lamina
