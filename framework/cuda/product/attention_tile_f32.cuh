#pragma once

#include <cstdint>

#include "lamina/cuda/product/attention_tile.cuh"
#include "lamina/cuda/tensor_core/split_tf32.cuh"

/// attention_tile.cuh's products, of f32: each as three of TF32 words, the smaller two first. Tensor cores truncate as
/// they add, so chains are short: those of a tile. What is not finite meets words that are 0 in these products, so
/// scores that come out so are found again by multiply-adds, and such values are not given to them.
namespace lamina::cuda {

/// `count` words of a fragment.
template <int count>
struct SplitFragment {
  std::uint32_t high[count], low[count];

  template <class... Words>
  __device__ __forceinline__ explicit SplitFragment(Words... words) : high{words...} {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float rest;
      split_tf32(high[i], high[i], rest);
      low[i] = __float_as_uint(rest);
    }
  }
};

/// sum += a b, of which `rest` is given what is small.
__device__ __forceinline__ void multiply_add(float (&sum)[4], float (&rest)[4], const SplitFragment<4>& a,
                                             const SplitFragment<2>& b) {
  ptx::mma<ptx::Tf32>(rest, a.low, b.high, rest);
  ptx::mma<ptx::Tf32>(rest, a.high, b.low, rest);
  ptx::mma<ptx::Tf32>(sum, a.high, b.high, sum);
}

/// Those of 16 rows' scores that are not finite, by multiply-adds. Slow, and rarely needed.
template <int most, int eights>
__device__ inline void score_again(Scores<eights>& scores, const Query<most, float>& query, const float* keys) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Scores<eights> sums = {};
#pragma unroll
  for (int d = 0; d < most / 8; ++d) {
#pragma unroll 1
    for (int t = 0; t < 4; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float low = __uint_as_float(__shfl_sync(0xffffffffu, query[d][2 * h], lane / 4 * 4 + t));
        const float high = __uint_as_float(__shfl_sync(0xffffffffu, query[d][2 * h + 1], lane / 4 * 4 + t));
#pragma unroll
        for (int i = 0; i < 2 * eights; ++i) {
          const int position = i / 2 * 8 + lane % 4 * 2 + i % 2;
          const float key = keys[position * pitch<most, float> + 8 * d + 4 * h + t];
          sums[i / 2][i % 2] = fmaf(low, key, sums[i / 2][i % 2]);
          sums[i / 2][2 + i % 2] = fmaf(high, key, sums[i / 2][2 + i % 2]);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4 * eights; ++i) {
    float& s = scores[i / 4][i % 4];
    s = isfinite(s) ? s : sums[i / 4][i % 4];
  }
}

template <int most, int eights>
__device__ __forceinline__ void score(Scores<eights>& scores, const Query<most, float>& query, const float* keys,
                                      int sixteens) {
  Scores<eights> rest = {};
#pragma unroll
  for (int d = 0; d < most / 8; ++d) {
    int word[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) word[i] = static_cast<int>(query[d][i]);
    ptx::pin(word);  // they are split here: all of them split would take the registers of the products
#pragma unroll
    for (int i = 0; i < eights / 2; ++i) {
      if (i >= sixteens) break;
      std::uint32_t b[4];
      load_keys<most>(b, keys + 16 * i * pitch<most, float>, d);
      const SplitFragment<2> first(b[0], b[1]), second(b[2], b[3]);
      const SplitFragment<4> a(static_cast<std::uint32_t>(word[0]), static_cast<std::uint32_t>(word[1]),
                               static_cast<std::uint32_t>(word[2]), static_cast<std::uint32_t>(word[3]));
      multiply_add(scores[2 * i], rest[2 * i], a, first);
      multiply_add(scores[2 * i + 1], rest[2 * i + 1], a, second);
    }
  }
  float probe = 0;  // or NaN where a score is not finite
#pragma unroll
  for (int i = 0; i < 4 * eights; ++i) {
    float& s = scores[i / 4][i % 4];
    s += rest[i / 4][i % 4];
    probe = fmaf(s, 0.0f, probe);
  }
  if (__any_sync(0xffffffffu, isnan(probe))) score_again<most>(scores, query, keys);
}

/// Positions 2t and 2t + 1 of eight are a fragment's words t and t + 4, so that weights are fragments as they are.
template <int most, int eights>
__device__ __forceinline__ void multiply(Outputs<most>& outputs, const Scores<eights>& weights, const float* values,
                                         int sixteens) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float* const own = values + lane % 4 * 2 * pitch<most, float> + lane / 4;
#pragma unroll
  for (int j = 0; j < most / 8; j += 2) {
    float sum[2][4] = {}, rest[2][4] = {};
#pragma unroll
    for (int i = 0; i < eights; ++i) {
      if (i >= 2 * sixteens) break;
      const float* const two = own + 8 * i * pitch<most, float> + 8 * j;
      const auto& w = weights[i];
#pragma unroll
      for (int right = 0; right < 2; ++right) {
        const SplitFragment<2> b(__float_as_uint(two[8 * right]), __float_as_uint(two[8 * right + pitch<most, float>]));
        const SplitFragment<4> a(__float_as_uint(w[0]), __float_as_uint(w[2]), __float_as_uint(w[1]),
                                 __float_as_uint(w[3]));
        multiply_add(sum[right], rest[right], a, b);
      }
    }
#pragma unroll
    for (int r = 0; r < 8; ++r) outputs[j + r / 4][r % 4] += sum[r / 4][r % 4] + rest[r / 4][r % 4];
  }
}

}  // namespace lamina::cuda
