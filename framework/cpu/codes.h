#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/simd.h"
#include "lamina/kernel/rules/eight_bits.h"

/// Numbers of u8 and i8 that stand for others, and sums of their products. Every operation is one of f32, rounded once:
/// the bits are the same for every instruction set.
namespace lamina::cpu {

using detail::SumsEnd;

/// The sums of one run of positions; arrays are of neighbouring channels and readable up to whole
/// pairs of vectors.
struct Sums {
  const std::int32_t* sums = nullptr;  ///< [count, row]
  std::int64_t row = 0;
  const std::int32_t* offset = nullptr;  ///< [channels], added to them
  const float* factor = nullptr;         ///< [channels]
  const float* bias = nullptr;           ///< [channels]
  void* output = nullptr;                ///< of the first position
  std::int64_t pixel = 0;                ///< elements to the next
  std::int64_t count = 0;
  int channels = 0;
};

/// Compiled for one instruction set.
struct CodesKernel {
  InstructionSet set;
  /// scale * (q - zero_point)
  void (*read)(DType type, const void* from, const Quantization& codes, float* to, std::int64_t count);
  /// clamp(round(x / scale) + zero_point), NaN to the lowest.
  void (*write)(DType type, const float* from, const Quantization& codes, void* to, std::int64_t count);
  void (*finish)(const SumsEnd& end, const Sums& sums);
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const CodesKernel> codes_kernels();

}  // namespace lamina::cpu
