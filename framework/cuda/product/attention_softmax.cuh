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

/// Calls f(score, column, h) for the scores of the first `sixteens` times 16 positions of the thread's row h, where
/// columns are counted among those that the thread has.
template <int eights, class F>
__device__ __forceinline__ void each_score(Scores<eights>& scores, int sixteens, F&& f) {
#pragma unroll
  for (int i = 0; i < eights / 2; ++i) {
    if (i >= sixteens) break;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) f(scores[2 * i + j / 2][2 * h + j % 2], 4 * i + j, h);
    }
  }
}

/// The softmax so far of a thread's two of 16 rows.
struct Softmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};  // of this thread's columns

  /// scores = 2^(unit * (scores - the largest)), unit >= 0, of the first `sixteens` times 16 positions; the outputs so
  /// far are brought to that largest. `finite`: so are unit * scores, and one multiply-add does.
  template <bool finite, int eights, int count>
  __device__ __forceinline__ void weigh(Scores<eights>& scores, float (&outputs)[count][4], float unit, int sixteens) {
    float now[2] = {largest[0], largest[1]}, base[2];
    each_score(scores, sixteens, [&](float& s, int, int h) { now[h] = fmaxf(now[h], s); });  // NaN comes back below
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      now[h] = over_row(now[h], [](float a, float b) { return fmaxf(a, b); });
      // Where all is -Inf so far any finite number stands for the largest: nothing weighs anything.
      base[h] = now[h] == -INFINITY ? 0.0f : now[h];
      const float factor = largest[h] == -INFINITY ? 1.0f : exp2_of((largest[h] - base[h]) * unit);
      largest[h] = now[h];
      sum[h] *= factor;
#pragma unroll
      for (int j = 0; j < count; ++j) outputs[j][2 * h] *= factor, outputs[j][2 * h + 1] *= factor;
    }
    const float scaled[2] = {base[0] * unit, base[1] * unit};
    each_score(scores, sixteens, [&](float& s, int, int h) {
      s = exp2_of(finite ? fmaf(s, unit, -scaled[h]) : (s - base[h]) * unit);
      sum[h] += s;
    });
  }
};

/// Whether a mask's neighbours, from an even position on, may be read together.
template <class T>
__device__ __forceinline__ bool has_pairs(const T* mask, const detail::AttentionExtents& e) {
  return e.mask[3] == 1 && (e.mask[0] | e.mask[1] | e.mask[2] | e.positions) % 2 == 0 &&
         reinterpret_cast<std::uintptr_t>(mask) % (2 * sizeof(T)) == 0;
}

/// What is added to a thread's scores of a tile, by row: pairs of neighbours.
template <int eights, class T>
using Summands = Pack<T, 2>[eights][2];

/// Those of the tile's positions of a row of which `left` are left, `step` apart; behind them whatever: nobody sees
/// these. No load waits for a comparison, so that all are under way at once. `pairs`: two begin on the bytes of both,
/// and `left` is even.
template <int eights, class T>
__device__ __forceinline__ void load_summands(Summands<eights, T>& summands, int h, const T* from, int left,
                                              std::int64_t step, bool pairs) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
  const auto pair_at = [](const T* at) { return *reinterpret_cast<const Pack<T, 2>*>(at); };
  if (pairs && left >= 8 * eights) {
    from += first;
#pragma unroll
    for (int i = 0; i < eights; ++i) summands[i][h] = pair_at(from + 8 * i);
  } else if (pairs) {
#pragma unroll
    for (int i = 0; i < eights; ++i) summands[i][h] = pair_at(from + min(8 * i + first, left - 2));
  } else {
    const auto each = [&](auto at) {
#pragma unroll
      for (int i = 0; i < eights; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) summands[i][h].values[j] = from[at(min(8 * i + first + j, left - 1))];
      }
    };
    step == 1 ? each([](int column) { return column; }) : each([&](int column) { return column * step; });
  }
}

/// Scores times `scale`, with what is added to them.
template <bool masked, int eights, class T>
__device__ __forceinline__ void add_summands(Scores<eights>& scores, const Summands<eights, T>& summands, float scale,
                                             int sixteens) {
  each_score(scores, sixteens, [&](float& s, int column, int h) {
    s = masked ? fmaf(s, scale, to_f32(summands[column / 2][h].values[column % 2])) : s * scale;
  });
}

/// -Inf for what is not seen of a tile, of which a thread's two rows see the first `seen` positions.
template <int eights>
__device__ __forceinline__ void hide_unseen(Scores<eights>& scores, const int (&seen)[2], int sixteens) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
  each_score(scores, sixteens, [&](float& s, int column, int h) {
    if (column / 2 * 8 + first + column % 2 >= seen[h]) s = -INFINITY;
  });
}

}  // namespace lamina::cuda
