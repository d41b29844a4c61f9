#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "lamina/kernel/preparation.h"

/// What kernels are told about numbers of u8 and i8 that stand for others (docs/inside/precision.md); codes.cuh has
/// what reads and writes them.
namespace lamina::cuda {

/// n neighbours that are loaded and stored together, in accesses of at most 16 bytes.
template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Neighbouring {
  T values[n];
};
/// Codes go in words of four, or alone.
template <int n>
using Codes = Neighbouring<std::conditional_t<n == 1, std::uint8_t, std::uint32_t>, (n + 3) / 4>;

/// What codes stand for. One of i8 is read as u8, 128 more, by turning its upper bit.
struct Meaning {
  std::uint32_t flip = 0;  ///< of four codes
  float zero = 0;          ///< of what is read, and 2^23 more
  float scale = 0;         ///< 0: they stand for nothing but themselves

  Meaning() = default;
  explicit Meaning(const View& view) : scale(view.quantization.scale) {
    const bool is_signed = view.format.dtype == DType::i8;
    flip = is_signed ? 0x80808080u : 0;
    zero = static_cast<float>((1 << 23) + view.quantization.zero_point + (is_signed ? 128 : 0));
  }

  /// Of byte j of a word. A byte at the end of 2^23 is added to it, and the difference is exact: no conversion, of
  /// which a multiprocessor does but a few at a time.
#ifdef __CUDACC__
  __device__ __forceinline__ float operator()(std::uint32_t word, int j) const {
    const float code = __uint_as_float(__byte_perm(word ^ flip, 0x4b000000u, 0x7540u + static_cast<unsigned>(j)));
    return __fmul_rn(__fsub_rn(code, zero), scale);
  }
#endif
};

/// How results are stored, and the codes of numbers. Scales of ordinary size are not divided by: the quotient by way of
/// 1 / scale in two words is one of the two floats beside the true one, and the remainder, which is exact, tells which
/// (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990; Brisebarre, Muller
/// and Raina, "Accelerating correctly rounded floating-point division when the divisor is known in advance", 2004):
/// four operations.
struct Results {
  DType dtype = DType::u8;                 ///< codes of u8 or i8; or f32, f16 or bf16
  float scale = 0, inverse = 0, rest = 0;  ///< inverse of 0: divide
  float low = 0, high = 0;                 ///< of the number; of the quotient, where it is divided
  std::int32_t zero = 0;

  Results() = default;
  explicit Results(const View& view)
      : dtype(view.format.dtype), scale(view.quantization.scale), zero(view.quantization.zero_point) {
    low = static_cast<float>((dtype == DType::i8 ? -128 : 0) - zero), high = low + 255;
    if (!(scale > 1e-15f && scale < 1e15f)) return;
    inverse = 1 / scale;
    rest = static_cast<float>((1 - static_cast<double>(inverse) * scale) / scale);
    low *= scale, high *= scale;
  }

  __host__ __device__ bool divides() const { return inverse == 0; }

#ifdef __CUDACC__
  /// In the lowest byte: what is added last has a last digit of 1.
  template <bool divide>
  __device__ __forceinline__ std::uint32_t code(float x) const {
    const float there = fminf(fmaxf(divide ? __fdiv_rn(x, scale) : x, low), high);  // NaN to low
    float q = there;
    if constexpr (!divide) {
      q = __fmaf_rn(there, inverse, __fmul_rn(there, rest));
      q = __fmaf_rn(__fmaf_rn(-q, scale, there), inverse, q);
    }
    return __float_as_uint(__fadd_rn(q, 12582912.0f)) + static_cast<std::uint32_t>(zero);
  }

  /// n neighbours, in words of four; and to element `at` of memory and on.
  template <bool divide, int n>
  __device__ Codes<n> codes(const float (&values)[n]) const;
  template <int n>
  __device__ void write(const float (&values)[n], void* memory, std::int64_t at) const;
#endif
};

}  // namespace lamina::cuda
