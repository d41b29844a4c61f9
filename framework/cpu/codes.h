#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lamina/cpu/simd.h"
#include "lamina/kernel/rules/eight_bits.h"

/// Numbers of u8 and i8 that stand for others, and sums of their products. Every operation is one of f32, rounded once:
/// the bits are the same for every instruction set.
namespace lamina::cpu {

using detail::SumsEnd;

/// A sum of two codes as round(own * a + (other * b + c)), two multiply-adds, where that is the formula's for all
/// pairs.
struct SumLine {
  float own = 0, other = 0, rest = 0;  ///< a of a code less its zero point, b of a byte, i8's with its upper bit turned
  float low = 0, high = 0;             ///< of the result, less its zero point
};

/// Sums of what two arrays stand for, between two bounds, as codes again. Scales are less than 1e15.
struct TwoCodes {
  float low = 0, high = 0;
  DType first_type = DType::u8, second_type = DType::u8, type = DType::u8;
  Quantization first_codes = {}, second_codes = {}, codes = {};
  std::optional<SumLine> line = {};  ///< of a Sums::two
};

/// The sums of one run of positions; arrays are of neighbouring channels and readable up to whole vectors.
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
  const TwoCodes* two = nullptr;  ///< the end's codes are first_codes, and what they stand for is added to
  const void* added = nullptr;    ///< others, laid out as the output
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
