#pragma once

#include "lamina/cuda/conv2d/code_ends.cuh"
#include "lamina/cuda/conv2d/narrow/arguments.h"
#include "lamina/cuda/finish.cuh"

/// What becomes of the sums of a warp's tile, or of those that several warps have a part of.
namespace lamina::cuda::narrow {

template <class T>
inline constexpr bool of_codes = std::is_integral_v<T>;
template <class T>
using Sum = std::conditional_t<of_codes<T>, int, float>;

/// A warp's tile: its first pixel, the one behind its last, and the image, where it is of one.
struct Place {
  int first, last, image = 0;
};

/// Finishes and stores `count` neighbouring filters of a pixel; `factor`: of codes, of the first of them.
template <class T, int count>
__device__ __forceinline__ void store(const Arguments& args, int pixel, int last, int filter, Sum<T> (&sum)[count],
                                      const float* factor) {
  if (pixel >= last || filter >= args.filters) return;
  const std::int64_t index = static_cast<std::int64_t>(pixel) * args.output_pitch + filter;
  if constexpr (of_codes<T>) {
    const auto* const others = static_cast<const T*>(args.finish.residual);
    *reinterpret_cast<Pack<std::uint16_t, count / 2>*>(static_cast<T*>(args.output) + index) =
        eight_bits::codes_of(args.codes, sum, factor, others == nullptr ? others : others + index);
  } else {
    float residual[count];
    load_residual<T>(args.finish, index, residual);
    Pack<T, count> result;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      result.values[i] = from_f32<T>(clamped(sum[i] + residual[i], args.finish.low, args.finish.high));
    }
    *reinterpret_cast<Pack<T, count>*>(static_cast<T*>(args.output) + index) = result;
  }
}

/// Of a warp that has all of K. `filter`: the slice's first.
template <class T, int m, int n>
__device__ __forceinline__ void store_tile(const Arguments& args, const Place& place, int filter, const Sum<T>* bias,
                                           const Sum<T> (&sum)[m][n][4]) {
  static_assert(n % 2 == 0);
  const auto* const factor = reinterpret_cast<const float*>(bias + 8 * n);
  constexpr int count = n % 4 == 0 ? 8 : 4;
  const int lane = static_cast<int>(threadIdx.x) % 32, own = lane % 4 * 2 * n;
#pragma unroll
  for (int i = 0; i < 2 * m; ++i) {
#pragma unroll
    for (int j = 0; j < 2 * n; j += count) {
      Sum<T> values[count];
#pragma unroll
      for (int e = 0; e < count; ++e) values[e] = sum[i / 2][(j + e) / 2][i % 2 * 2 + e % 2] + bias[own + j + e];
      store<T>(args, place.first + i * 8 + lane / 4, place.last, filter + own + j, values, factor + own + j);
    }
  }
}

/// Of warps that have a part of K each: they share the tile's fragments, and add up in the order of the parts.
template <class T, int m, int n>
__device__ __forceinline__ void store_together(const Arguments& args, const Place& place, int filter,
                                               const Sum<T>* bias, Pack<Sum<T>, 4>* sums,
                                               const Sum<T> (&sum)[m][n][4]) {
  const auto* const factor = reinterpret_cast<const float*>(bias + 8 * n);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int split = warp % args.splits, own = lane % 4 * 2 * n;
#pragma unroll
  for (int f = 0; f < m * n; ++f) {
    const Sum<T>* v = sum[f / n][f % n];
    sums[(warp * m * n + f) * 32 + lane] = {v[0], v[1], v[2], v[3]};
  }
  __syncthreads();
  for (int f = split; f < m * n; f += args.splits) {
    const int j = own + f % n * 2, pixel = place.first + f / n * 16 + lane / 4;
    Sum<T> low[2] = {}, high[2] = {};
    for (int s = 0; s < args.splits; ++s) {
      const auto v = sums[((warp - split + s) * m * n + f) * 32 + lane];
      low[0] += v.values[0], low[1] += v.values[1], high[0] += v.values[2], high[1] += v.values[3];
    }
    low[0] += bias[j], low[1] += bias[j + 1], high[0] += bias[j], high[1] += bias[j + 1];
    store<T>(args, pixel, place.last, filter + j, low, factor + j);
    store<T>(args, pixel + 8, place.last, filter + j, high, factor + j);
  }
  __syncthreads();
}

}  // namespace lamina::cuda::narrow
