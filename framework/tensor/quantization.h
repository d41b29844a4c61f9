#pragma once

#include <array>
#include <cstdint>

namespace lamina {

/// By a code's byte, a byte.
using CodeTable = std::array<std::uint8_t, 256>;

/// What a stored whole number q stands for: scale * (q - zero_point). A scale of 0: nothing but itself.
struct Quantization {
  float scale = 0;
  std::int32_t zero_point = 0;

  bool defined() const { return scale != 0; }

  friend bool operator==(const Quantization&, const Quantization&) = default;
};

}  // namespace lamina
