#pragma once

// A 1x1 convolution to few filters: pixels [M, K] x filters [K, F] between channels-last tensors of 16 bits, or of
// codes, as mobile networks' blocks end. Pixels go from memory straight into the fragments of mma.sync, 16 bytes a
// lane: which k a register of a fragment stands for is free, as long as both operands agree, and so lane 4 g + t has
// bytes 16 t to 16 t + 15 of a chunk of 64, of row g. On their way they may be multiplied by factors of their image's
// channels, as squeeze and excitation ends, and are rounded then as that product would be.
//
// A warp owns 16 m pixels, 8 n filters and, where there are too few of these, a part of K: `splits` warps of a block
// share a tile, and add up through shared memory. A block owns a slice of the filters, whose weights lie in shared
// memory from before its predecessor ends, and walks over tiles of pixels. Shared memory: slice_bytes, and behind them
// the warps' sums where splits > 1. Preconditions: Arguments filled in by narrow.cpp; compute capability 8.0.

#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/conv2d/narrow/arguments.h"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/mma_codes.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::narrow {

template <class T>
inline constexpr bool of_codes = std::is_integral_v<T>;
template <class T>
using Sum = std::conditional_t<of_codes<T>, int, float>;

/// Two neighbouring elements times two, each product rounded.
template <class T>
__device__ __forceinline__ void multiply(std::uint32_t& pair, std::uint32_t by) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 product =
        __hmul2_rn(*reinterpret_cast<const __half2*>(&pair), *reinterpret_cast<const __half2*>(&by));
    pair = *reinterpret_cast<const std::uint32_t*>(&product);
  } else {
    const auto low = [](std::uint32_t v) { return __uint_as_float(v << 16); };
    const auto high = [](std::uint32_t v) { return __uint_as_float(v & 0xFFFF0000u); };
    const __nv_bfloat162 product = __floats2bfloat162_rn(low(pair) * low(by), high(pair) * high(by));
    pair = *reinterpret_cast<const std::uint32_t*>(&product);
  }
}

/// A chunk of a lane's 2 m rows.
template <class T, int m, bool scaled>
struct Operands {
  uint4 pixels[2 * m], factors[scaled ? 2 * m : 1];

  __device__ __forceinline__ void multiply_pixels() {
    if constexpr (scaled) {
#pragma unroll
      for (int i = 0; i < 2 * m; ++i) {
        multiply<T>(pixels[i].x, factors[i].x), multiply<T>(pixels[i].y, factors[i].y);
        multiply<T>(pixels[i].z, factors[i].z), multiply<T>(pixels[i].w, factors[i].w);
      }
    }
  }
};

/// Where a lane's 2 m rows lie, eight pixels apart.
template <class T, int m, bool scaled>
struct Rows {
  static constexpr int bytes = sizeof(T);
  const unsigned char *pixels[2 * m], *factors[scaled ? 2 * m : 1];

  __device__ __forceinline__ Rows(const Arguments& args, int first) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) {
      const int pixel = min(first + i * 8 + lane / 4, args.pixels - 1);
      const auto at = [&](const void* from, std::int64_t row) {
        return static_cast<const unsigned char*>(from) + row * args.channels * bytes + lane % 4 * 16;
      };
      pixels[i] = at(args.input, pixel);
      if constexpr (scaled) factors[i] = at(args.factors, args.by_image.quotient(static_cast<std::uint32_t>(pixel)));
    }
  }

  /// Zeros from `last` on, and behind the channels.
  __device__ __forceinline__ void load(const Arguments& args, int at, int last, Operands<T, m, scaled>& to) const {
    const int left = args.channels * bytes - at * chunk_bytes - static_cast<int>(threadIdx.x) % 4 * 16;
    const bool inside = at < last && left > 0;
    const bool halves = of_codes<T> && args.channels % 16 != 0;  // of 16 bytes, which the next pixel may begin amidst
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) {
      to.pixels[i] = {};
      const unsigned char* const from = pixels[i] + at * chunk_bytes;
      if (inside && halves) {
        const auto first = *reinterpret_cast<const uint2*>(from);
        to.pixels[i].x = first.x, to.pixels[i].y = first.y;
        if (left < 16) continue;
        const auto second = *reinterpret_cast<const uint2*>(from + 8);
        to.pixels[i].z = second.x, to.pixels[i].w = second.y;
      } else if (inside) {
        to.pixels[i] = *reinterpret_cast<const uint4*>(from);
      }
      if constexpr (scaled) {
        to.factors[i] = {};
        if (inside) to.factors[i] = *reinterpret_cast<const uint4*>(factors[i] + at * chunk_bytes);
      }
    }
  }
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
  std::uint32_t code[count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    code[i] = eight_bits::rounded(__fmul_rn(__int2float_rn(sum[i]), factor[i]), ends.end.low, ends.end.high, zero);
  }
  // Asked once for all: between questions each code would wait for the one before it.
  if (ends.table != nullptr) {
#pragma unroll
    for (int i = 0; i < count; ++i) code[i] = __ldg(ends.table + (code[i] & 0xffu));
  }
  if (adds) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      code[i] = again.code<false>(__fadd_rn(own(code[i], 0), other(added.values[i / 2], i % 2)));
    }
  }
  Bytes result;
#pragma unroll
  for (int i = 0; i < count; i += 2) {
    result.values[i / 2] = static_cast<std::uint16_t>(__byte_perm(code[i], code[i + 1], 0x0040));
  }
  return result;
}

/// Finishes and stores `count` neighbouring filters of a pixel; `factor`: of codes, of the first of them.
template <class T, int count>
__device__ __forceinline__ void store(const Arguments& args, int pixel, int filter, Sum<T> (&sum)[count],
                                      const float* factor) {
  if (pixel >= args.pixels || filter >= args.filters) return;
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

/// Of a warp that has all of K. `first`: the tile's first pixel; `filter`: the slice's first.
template <class T, int m, int n>
__device__ __forceinline__ void store_tile(const Arguments& args, int first, int filter, const Sum<T>* bias,
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
      store<T>(args, first + i * 8 + lane / 4, filter + own + j, values, factor + own + j);
    }
  }
}

/// Of warps that have a part of K each: they share the tile's fragments, and add up in the order of the parts.
template <class T, int m, int n>
__device__ __forceinline__ void store_together(const Arguments& args, int first, int filter, const Sum<T>* bias,
                                               Pack<Sum<T>, 4>* sums, const Sum<T> (&sum)[m][n][4]) {
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
    const int j = own + f % n * 2, pixel = first + f / n * 16 + lane / 4;
    Sum<T> low[2] = {}, high[2] = {};
    for (int s = 0; s < args.splits; ++s) {
      const auto v = sums[((warp - split + s) * m * n + f) * 32 + lane];
      low[0] += v.values[0], low[1] += v.values[1], high[0] += v.values[2], high[1] += v.values[3];
    }
    low[0] += bias[j], low[1] += bias[j + 1], high[0] += bias[j], high[1] += bias[j + 1];
    store<T>(args, pixel, filter + j, low, factor + j);
    store<T>(args, pixel + 8, filter + j, high, factor + j);
  }
  __syncthreads();
}

template <class T, int m, int n, bool scaled>
__global__ void __launch_bounds__(threads, resident_of(m, n, scaled))
    narrow_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  constexpr int stages = stages_of(m);
  extern __shared__ __align__(16) unsigned char memory[];
  let_successor_start(args.neighbours);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int split = warp % args.splits, group = warp / args.splits, groups = warps / args.splits;
  const int begins = static_cast<int>(args.by_slices.quotient(blockIdx.x));
  const int slice = static_cast<int>(blockIdx.x) - begins * args.slices;
  const int step = static_cast<int>(args.by_slices.quotient(gridDim.x));
  const int bytes = slice_bytes(args.chunks, n, of_codes<T>);
  {
    const unsigned char* from = args.weights + static_cast<std::int64_t>(slice) * bytes;
    for (int i = thread * 16; i < bytes; i += threads * 16) {
      ptx::copy_async<16>(ptx::shared_address(memory) + static_cast<std::uint32_t>(i), from + i);
    }
    ptx::copy_async_commit();
  }
  const int from = args.chunks * split / args.splits, last = args.chunks * (split + 1) / args.splits;
  const auto* bias = reinterpret_cast<const Sum<T>*>(memory + bias_offset(args.chunks, n));
  wait_for_predecessor(args.neighbours);
  for (int tile = begins; tile < args.tiles; tile += step) {
    const int first = (tile * groups + group) * 16 * m;
    const Rows<T, m, scaled> rows(args, first);
    Operands<T, m, scaled> operands[stages];
#pragma unroll
    for (int s = 0; s < stages - 1; ++s) rows.load(args, from + s, last, operands[s]);
    if (tile == begins) {
      ptx::copy_async_wait<0>();
      __syncthreads();
    }
    Sum<T> sum[m][n][4] = {};
    for (int at = from; at < last; at += stages) {
#pragma unroll
      for (int s = 0; s < stages; ++s) {
        rows.load(args, at + s + stages - 1, last, operands[(s + stages - 1) % stages]);
        if (at + s >= last) continue;
        Operands<T, m, scaled>& now = operands[s];
        now.multiply_pixels();
        const unsigned char* weights = memory + (at + s) * (n * fragment_bytes) + lane * 16;
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const uint4 w = *reinterpret_cast<const uint4*>(weights + j * fragment_bytes);
#pragma unroll
          for (int i = 0; i < m; ++i) {
            const uint4 &above = now.pixels[2 * i], &below = now.pixels[2 * i + 1];
            ptx::mma<T>(sum[i][j], {above.x, below.x, above.y, below.y}, {w.x, w.y}, sum[i][j]);
            ptx::mma<T>(sum[i][j], {above.z, below.z, above.w, below.w}, {w.z, w.w}, sum[i][j]);
          }
        }
      }
    }
    if (args.splits == 1) {
      store_tile<T, m, n>(args, first, slice * 8 * n, bias, sum);
    } else {
      store_together<T, m, n>(args, first, slice * 8 * n, bias, reinterpret_cast<Pack<Sum<T>, 4>*>(memory + bytes),
                              sum);
    }
  }
  end_beside(args.neighbours);
#endif
}

template <class T, int m, int n>
void add_tiles(std::vector<Tile>& tiles) {
  tiles.push_back(
      {m, n, false, resident_of(m, n, false), reinterpret_cast<const void*>(&narrow_kernel<T, m, n, false>)});
  if constexpr (!of_codes<T>) {
    tiles.push_back(
        {m, n, true, resident_of(m, n, true), reinterpret_cast<const void*>(&narrow_kernel<T, m, n, true>)});
  }
}

/// 16, 32 and 64 filters, of which a lane stores 8 or 16 bytes at a time: others were slower, even where they fit.
template <class T>
std::vector<Tile> tiles() {
  std::vector<Tile> all;
  add_tiles<T, 1, 2>(all), add_tiles<T, 1, 4>(all), add_tiles<T, 1, 8>(all);
  add_tiles<T, 2, 2>(all), add_tiles<T, 2, 4>(all), add_tiles<T, 2, 8>(all);
  return all;
}

}  // namespace lamina::cuda::narrow
