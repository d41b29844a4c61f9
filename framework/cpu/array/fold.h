#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "lamina/cpu/simd.h"

namespace lamina::cpu {

/// What is made of many numbers: the sum of what each becomes, their product, or one of them, NaN if there is one.
enum class Fold : std::uint8_t { sum, absolute, squares, powers, product, largest, least };

/// The greater of `low` and ((scale x - mean - rest) factor + shift) by + plus; pointers are to each element's own, or
/// null, `plus` where `by` is: `less` and `rest_of` in place of the mean and the rest. NaN stays.
struct Scaling {
  float scale = 1, mean = 0, rest = 0, factor = 1, shift = 0;
  const float* by = nullptr;
  const float* plus = nullptr;
  const float* less = nullptr;
  const float* rest_of = nullptr;
  float low = -std::numeric_limits<float>::infinity();
};

/// Of floats, for each Fold: in doubles, so that no sum loses to its length, and in an order that follows from how many
/// they are. Powers are exp(x - below), squares those of x - below. Compiled for one instruction set.
struct FoldKernel {
  static constexpr std::int64_t slack = 16;  ///< elements of value and below that are there behind the last

  InstructionSet set;
  /// A value and `count` neighbours.
  double (*row[7])(const float* x, std::int64_t count, double value, float below);
  /// Each of `count` values and what stands at its place in every line.
  void (*columns[7])(std::span<const float* const> lines, std::int64_t count, double* value, const float* below);
  /// Rows of `count` elements, `x_pitch` and `y_pitch` apart. y may be x.
  void (*scaled)(const Scaling& scaling, std::int64_t rows, std::int64_t count, const float* x, std::int64_t x_pitch,
                 float* y, std::int64_t y_pitch);
};

/// Those that this machine runs, the fastest first.
std::span<const FoldKernel> fold_kernels();

}  // namespace lamina::cpu
