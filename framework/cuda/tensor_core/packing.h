#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/tensor/tensor.h"

/// What those have in common that put a layer's parameters into the order of a kernel: host logic.
namespace lamina::cuda {

/// A weight as f16 or bf16 stores it.
inline std::uint16_t bits16(float weight, DType type) {
  return type == DType::f16 ? to_half(weight).bits : to_bfloat16(weight).bits;
}

/// A weight rounded to f32, f16 or bf16.
inline float rounded(float weight, DType type) {
  return type == DType::f16 ? to_float(to_half(weight)) : type == DType::bf16 ? to_float(to_bfloat16(weight)) : weight;
}

/// The biases and zeros behind them; all zeros where there are none.
inline std::vector<float> padded_biases(const Tensor& bias, std::int64_t count) {
  std::vector<float> biases(static_cast<std::size_t>(count));
  if (bias.defined()) std::ranges::copy(bias.values<float>(), biases.begin());
  return biases;
}

/// Bytes, zeros at first, that values are put into.
class Packed {
 public:
  explicit Packed(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {}

  template <class Value>
  void put(std::int64_t at, Value value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  std::vector<unsigned char> bytes_;
};

}  // namespace lamina::cuda
