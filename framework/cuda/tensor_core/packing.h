#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lamina/base/in_parallel.h"
#include "lamina/cuda/tensor_core/weights.h"
#include "lamina/kernel/precision.h"
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

/// Writes what `precision` multiplies of a weight: rounded to 2 bytes or to TF32; fp32 as it is.
inline void put_operand(void* to, Precision precision, float weight) {
  const auto copy = [to](auto bits) { std::memcpy(to, &bits, sizeof(bits)); };
  switch (precision) {
    case Precision::fp32: return copy(weight);
    case Precision::tf32: return copy(round_to_tf32(std::bit_cast<std::uint32_t>(weight)));
    case Precision::fp16: return copy(to_half(weight).bits);
    case Precision::bf16: return copy(to_bfloat16(weight).bits);
  }
}

/// Calls put(filter, weight) for all filters, in parallel: weight(k) is a weight of the filter, in fp32 times the power
/// of two that find_range wants. Gives what find_range says of each, in fp32.
template <class Put>
std::vector<FilterRange> pack_filters(Precision precision,
                                      const float* weights,  // [filters, size]
                                      int filters, std::int64_t size, const Put& put) {
  std::vector<FilterRange> ranges(precision == Precision::fp32 ? static_cast<std::size_t>(filters) : 0);
  lamina::detail::in_parallel(static_cast<std::size_t>(filters), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t filter = begin; filter < end; ++filter) {
      const float* w = weights + static_cast<std::int64_t>(filter) * size;
      int shift = 0;
      if (precision == Precision::fp32) ranges[filter] = find_range(w, size, shift);
      put(static_cast<int>(filter), [&](std::int64_t k) { return shift == 0 ? w[k] : std::ldexp(w[k], shift); });
    }
  });
  return ranges;
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
