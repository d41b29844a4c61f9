#pragma once

#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/conv2d/narrow/arguments.h"
#include "lamina/cuda/eight_bits/codes.cuh"
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

/// The codes of neighbouring filters' sums, as Arguments::codes says; `others`: what they may be added to.
template <int count>
__device__ __forceinline__ Pack<std::uint16_t, count / 2> codes_of(const CodeEnds& ends, const int (&sum)[count],
                                                                   const float* factor, const void* others) {
  using Bytes = Pack<std::uint16_t, count / 2>;
  const auto zero = static_cast<std::uint32_t>(ends.end.quantization.zero_point);
  const bool adds = others != nullptr;
  const Bytes added = adds ? *static_cast<const Bytes*>(others) : Bytes();
  const Results again(ends.again);
  const Meaning own(ends.own), other(ends.others);
  Bytes result;
#pragma unroll
  for (int i = 0; i < count; i += 2) {
    std::uint32_t code[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      code[j] =
          eight_bits::rounded(__fmul_rn(__int2float_rn(sum[i + j]), factor[i + j]), ends.end.low, ends.end.high, zero);
      if (ends.table != nullptr) code[j] = __ldg(ends.table + (code[j] & 0xffu));
      if (adds) code[j] = again.code<false>(__fadd_rn(own(code[j], 0), other(added.values[i / 2], j)));
    }
    result.values[i / 2] = static_cast<std::uint16_t>(__byte_perm(code[0], code[1], 0x0040));
  }
  return result;
}

/// Finishes and stores `count` neighbouring filters of a pixel; `factor`: of codes, of the first of them.
template <class T, int count>
__device__ __forceinline__ void store(const Arguments& args, int pixel, int last, int filter, Sum<T> (&sum)[count],
                                      const float* factor) {
  if (pixel >= last || filter >= args.filters) return;
  const std::int64_t index = static_cast<std::int64_t>(pixel) * args.output_pitch + filter;
  if constexpr (of_codes<T>) {
    const auto* const others = static_cast<const T*>(args.finish.residual);
    *reinterpret_cast<Pack<std::uint16_t, count / 2>*>(static_cast<T*>(args.output) + index) =
        codes_of(args.codes, sum, factor, others == nullptr ? others : others + index);
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
