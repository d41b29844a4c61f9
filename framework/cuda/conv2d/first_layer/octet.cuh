#pragma once

#include <cstdint>
#include <type_traits>

#include "lamina/cuda/conv2d/first_layer/modes.cuh"

/// The eight values of one unit on their way from an image row to the ring: read as the input stores them, checked, and
/// made operands of.
namespace lamina::cuda::first_layer {

template <class M, class In>
struct Octet;

/// Of f32: rounded, in fp32 to a high and a residual word.
template <class M>
struct Octet<M, float> {
  static constexpr int parts = M::split ? 2 : 1;
  float value[8];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& v : value) v = 0.0f;
  }
  /// Slot e.
  __device__ __forceinline__ void take(int e, const unsigned char* from) {
    value[e] = *reinterpret_cast<const float*>(from);
  }
  /// Four columns of row r of two: slots {row 0 left, row 1 left, row 0 right, row 1 right}.
  __device__ __forceinline__ void take_line(int r, const unsigned char* from) {
    const float4 line = *reinterpret_cast<const float4*>(from);
    value[2 * r] = line.x, value[2 * r + 1] = line.y, value[4 + 2 * r] = line.z, value[5 + 2 * r] = line.w;
  }
  __device__ __forceinline__ RangeCheck<M> check() const {
    RangeCheck<M> check;
#pragma unroll
    for (const float v : value) check.see(v);
    return check;
  }
  __device__ __forceinline__ void operands(std::uint32_t (&word)[parts][4]) const {
#pragma unroll
    for (int w = 0; w < 4; ++w) convert(value[2 * w], value[2 * w + 1], word[0][w], word[parts - 1][w]);
  }

 private:
  /// high and residual of two neighbouring slots (without splitting: `high` alone).
  __device__ __forceinline__ static void convert(float a, float b, std::uint32_t& high, std::uint32_t& residual) {
    using Operand = typename M::Operand;
    if constexpr (M::scaled) a *= input_scale, b *= input_scale;
    high = Pair<Operand>::pack(a, b);
    if constexpr (M::split) {
      const float2 rounded = Pair<Operand>::unpack(high);
      residual = Pair<Operand>::pack((a - rounded.x) * residual_scale, (b - rounded.y) * residual_scale);
    }
  }
};

/// Of 16 bits: operands already.
template <class M>
struct Octet<M, typename M::Operand> {
  std::uint32_t word[4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (std::uint32_t& w : word) w = 0;
  }
  __device__ __forceinline__ void take(int e, const unsigned char* from) {
    const std::uint32_t bits = *reinterpret_cast<const unsigned short*>(from);
    word[e / 2] |= bits << 16 * (e % 2);
  }
  __device__ __forceinline__ void take_line(int r, const unsigned char* from) {
    const uint2 line = *reinterpret_cast<const uint2*>(from);
    word[r] = line.x, word[2 + r] = line.y;
  }
  /// Two exponents at once: one more turns the largest, which Inf and NaN have, into a carry.
  struct Finite {
    std::uint32_t carries = 0;
    __device__ __forceinline__ bool too_large() const { return carries != 0; }
    __device__ __forceinline__ bool failed() const { return carries != 0; }
  };
  __device__ __forceinline__ Finite check() const {
    constexpr std::uint32_t one = std::is_same_v<typename M::Operand, __half> ? 0x04000400u : 0x00800080u;
    constexpr std::uint32_t exponents = 0x80008000u - one;
    std::uint32_t sums = 0;
#pragma unroll
    for (const std::uint32_t w : word) sums |= (w & exponents) + one;
    return {sums & 0x80008000u};
  }
  __device__ __forceinline__ void operands(std::uint32_t (&to)[1][4]) const {
#pragma unroll
    for (int w = 0; w < 4; ++w) to[0][w] = word[w];
  }
};

}  // namespace lamina::cuda::first_layer
