#pragma once

#include <cmath>
#include <cstdint>

#include "lamina/cuda/product/attention_rows.cuh"
#include "lamina/cuda/product/attention_tile.cuh"

/// What becomes of a tile's scores (attention_tile.cuh): masked, weighed, and the sum of what they weigh so far.
namespace lamina::cuda {

/// What becomes of the scale. Its sign is the queries': the largest score then has the largest weight. The rest is part
/// of the exponent, or the scores' own where a mask is added to them.
struct Scale {
  bool of_scores;
  float scores, unit;  // scores are multiplied by the first if so, weighed in powers of two by the second
  bool negative;

  __device__ __forceinline__ Scale(float scale, bool masked) : of_scores(masked || scale == 0.0f), negative(scale < 0) {
    constexpr float log2_e = 1.44269504f;
    scores = of_scores ? fabsf(scale) : 1.0f;
    unit = of_scores ? log2_e : fabsf(scale) * log2_e;
  }
};

/// The softmax so far of a thread's two of 16 rows.
struct Softmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};  // of this thread's columns

  /// scores = 2^(unit * (scores - the largest)), unit >= 0, of the first `eights` times 8 positions; the outputs so far
  /// are brought to that largest. `finite`: so are unit * scores, and one multiply-add does.
  template <bool finite, int max_eights, int count>
  __device__ __forceinline__ void weigh(Scores<max_eights>& scores, float (&outputs)[count][4], float unit,
                                        int eights) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float now = largest[h];
#pragma unroll
      for (int i = 0; i < max_eights; ++i) {
        if (i >= eights) break;
        // NaN is left out here, and found again by the exponentials
        now = fmaxf(now, fmaxf(scores[i][2 * h], scores[i][2 * h + 1]));
      }
      now = over_row(now, [](float a, float b) { return fmaxf(a, b); });
      // Where all is -Inf so far any finite number stands for the largest: nothing weighs anything.
      const float base = now == -INFINITY ? 0.0f : now, scaled = base * unit;
      const float factor = largest[h] == -INFINITY ? 1.0f : exp2_of((largest[h] - base) * unit);
      largest[h] = now;
      sum[h] *= factor;
#pragma unroll
      for (int i = 0; i < max_eights; ++i) {
        if (i >= eights) break;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& s = scores[i][2 * h + j];
          s = exp2_of(finite ? fmaf(s, unit, -scaled) : (s - base) * unit);
          sum[h] += s;
        }
      }
#pragma unroll
      for (int j = 0; j < count; ++j) outputs[j][2 * h] *= factor, outputs[j][2 * h + 1] *= factor;
    }
  }
};

/// What is added to a thread's scores of a tile, by row: pairs of neighbours.
template <int eights, class T>
using Summands = Pack<T, 2>[eights][2];

/// Those of a row's first `left` positions, `step` apart; 0 for others. `pairs`: two begin on the bytes of both.
template <int max_eights, class T>
__device__ __forceinline__ void load_summands(Summands<max_eights, T>& summands, int h, const T* from, int left,
                                              std::int64_t step, bool pairs) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < max_eights; ++i) {
    const int column = 8 * i + first;
    Pack<T, 2>& pair = summands[i][h];
    pair = {T(0.0f), T(0.0f)};
    if (pairs) {
      if (column + 1 < left) {
        pair = *reinterpret_cast<const Pack<T, 2>*>(from + column);
      } else if (column < left) {
        pair.values[0] = from[column];
      }
    } else {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (column + j < left) pair.values[j] = from[(column + j) * step];
      }
    }
  }
}

/// Scores times `scale`, with what is added to them, and -Inf for what is not seen, of 16 rows of which `first` and
/// `first` + 8 are this thread's; how much of the tile at `position` these see.
template <bool masked, int max_eights, class T>
__device__ __forceinline__ void mask_scores(Scores<max_eights>& scores, const AttentionRows& rows, std::int64_t first,
                                            const Summands<max_eights, T>& summands, int position, float scale,
                                            int eights, int (&seen)[2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const std::int64_t left = rows.seen(first + 8 * h) - position;
    seen[h] = left < 0 ? 0 : left < 8 * max_eights ? static_cast<int>(left) : 8 * max_eights;
#pragma unroll
    for (int i = 0; i < max_eights; ++i) {
      if (i >= eights) break;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& s = scores[i][2 * h + j];
        s *= scale;
        if constexpr (masked) s += to_f32(summands[i][h].values[j]);
        if (8 * i + lane % 4 * 2 + j >= seen[h]) s = -INFINITY;
      }
    }
  }
}

}  // namespace lamina::cuda
