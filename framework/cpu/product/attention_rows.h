#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/simd.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// What attention does to rows between and after its products, compiled for one instruction set.
struct AttentionRows {
  /// As the engine reads them; of f32, they are as exact as f32, and of bf16 as that.
  enum class Weights { f32, widened, bf16 };

  InstructionSet set;
  /// weights[i] = exp(scale * scores[i] - the largest so far) for i < `seen`, 0 from there to `count`, a multiple of
  /// 32, in steps of 32, `step` elements apart. As bf16 they are rounded to nearest and lie as `bf16_place` says, as
  /// f32 in order. `sum` is brought to the new largest and theirs is added; returns what brings values there. -Inf
  /// weighs nothing, NaN makes all NaN.
  float (*weigh)(const float* scores, std::int64_t seen, std::int64_t count, float scale, void* weights,
                 std::int64_t step, Weights kind, float& largest, float& sum);
  /// values = values * factor + more
  void (*add)(float* values, float factor, const float* more, std::int64_t count);
  /// out = values / divisor
  void (*divide)(const float* values, float divisor, std::int64_t count, bfloat16* out);
  void (*divide_f32)(const float* values, float divisor, std::int64_t count, float* out);
  template <class T>
  static auto divide_to(const AttentionRows& rows) {
    if constexpr (sizeof(T) == 2) {
      return rows.divide;
    } else {
      return rows.divide_f32;
    }
  }

  /// Where weight i of a step of 32 is as bf16: halves of a step are pairs, which takes two vectors of floats without a
  /// permutation.
  static constexpr std::int64_t bf16_place(std::int64_t i) { return i < 16 ? 2 * i : 2 * (i - 16) + 1; }
};
/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const AttentionRows> attention_rows_kernels();

}  // namespace lamina::cpu
