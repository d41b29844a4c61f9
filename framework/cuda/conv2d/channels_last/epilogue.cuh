#pragma once

// From a warpgroup's sums to the output: exact repair of rare ones, bias, ReLU, rounding, and the way through shared
// memory that turns filters x pixels into pixels x filters. chain.cuh has the way of longer chains.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lamina/cuda/conv2d/channels_last/arguments.h"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/barrier.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/shared.cuh"
#include "lamina/cuda/ptx/tensor_copy.cuh"
#include "lamina/cuda/ptx/tf32.h"
#include "lamina/cuda/tensor_core/scaled_rows.h"

namespace lamina::cuda::channels_last {

/// f32 storage, rounded to TF32 as it is copied.
using ptx::Tf32;
/// f32 storage, multiplied as three products of TF32 words.
struct SplitTf32 {};
/// f32 storage, multiplied as f16 with a power of two for each row of 64 channels.
struct ScaledF16 {};
/// f32 storage, multiplied as three products of f16 words, with a power of two for each row of 32 channels.
struct ScaledPairs {};

/// How an operand type is stored, read as f32, and written. `repaired`: sums that are not finite are summed again,
/// because accumulators that overflow may turn to NaN instead of Inf; products of f16 never overflow f32.
template <class T>
struct Element {
  using Stored = T;
  static constexpr bool repaired = std::is_same_v<T, __nv_bfloat16>;
  __device__ static float value(T x) { return static_cast<float>(x); }
};
template <>
struct Element<Tf32> {
  using Stored = float;
  static constexpr bool repaired = true;
  __device__ static float value(float x) { return __uint_as_float(round_to_tf32(__float_as_uint(x))); }
};

struct PlainF32 {
  using Stored = float;
  static constexpr bool repaired = true;
  __device__ static float value(float x) { return x; }
};
template <>
struct Element<SplitTf32> : PlainF32 {};
template <>
struct Element<ScaledF16> : PlainF32 {};
template <>
struct Element<ScaledPairs> : PlainF32 {};

template <class T>
inline constexpr bool in_f32 = sizeof(typename Element<T>::Stored) == 4;

template <class T>
inline constexpr Operand operand_of = std::is_same_v<T, __half>          ? Operand::fp16
                                      : std::is_same_v<T, __nv_bfloat16> ? Operand::bf16
                                      : std::is_same_v<T, Tf32>          ? Operand::tf32
                                      : std::is_same_v<T, SplitTf32>     ? Operand::split_tf32
                                      : std::is_same_v<T, ScaledF16>     ? Operand::scaled_f16
                                                                         : Operand::scaled_pairs;
template <class T>
inline constexpr bool split = operand_of<T> == Operand::split_tf32;
template <class T>
inline constexpr bool scaled = is_scaled(operand_of<T>);
template <class T>
inline constexpr bool ranged = split<T> || scaled<T>;  // filters have a FilterRange

__device__ __forceinline__ float activate(const Arguments& args, float y) { return args.relu && y < 0.0f ? 0.0f : y; }

__device__ __forceinline__ ptx::Corner corner_of(const ConvGeometry& g, int pixel) {
  const int plane = g.out_height * g.out_width;
  const int image = pixel / plane, row = (pixel - image * plane) / g.out_width;
  const int column = pixel - image * plane - row * g.out_width;
  return {image, row * g.stride_height - g.padding_height, column * g.stride_width - g.padding_width};
}

/// Term `term` of a packed row of weights.
template <class T>
__device__ __forceinline__ float weight_at(const unsigned char* block, int filter, int term) {
  const auto at = [&](int byte) { return block + swizzled(filter, byte / 16 * 16) + byte % 16; };
  if constexpr (scaled<T>) {
    const float high = __half2float(*reinterpret_cast<const __half*>(at(term * 2)));
    if constexpr (operand_of<T> == Operand::scaled_f16) return high;
    const float low = __half2float(*reinterpret_cast<const __half*>(at(step_bytes / 2 + term * 2)));
    return fmaf(low, 1.0f / low_word_scale, high);
  } else {
    using Stored = typename Element<T>::Stored;
    return Element<T>::value(*reinterpret_cast<const Stored*>(at(term * static_cast<int>(sizeof(Stored)))));
  }
}

/// One output's sum by plain fp32 multiply-adds, in short chains. Inlined, because a call would take registers from
/// the products' accumulators.
template <class T>
__device__ __forceinline__ float exact_sum(const Arguments& args, int filter, int pixel, const FilterRange& range) {
  using Stored = typename Element<T>::Stored;
  constexpr int terms = step_terms(operand_of<T>);
  // Scaled weights may be so large that their products overflow where those of the weights themselves do not; those
  // that are split are scaled only where that helps.
  const float before = scaled<T> ? range.scale : 1.0f, after = split<T> ? exact_scale(range) : 1.0f;
  const ConvGeometry& g = args.geometry;
  const ptx::Corner corner = corner_of(g, pixel);
  const auto* weight =
      static_cast<const unsigned char*>(args.weight) +
      static_cast<std::size_t>(filter / block_filters) * static_cast<unsigned>(args.steps) * block_bytes;
  const int slabs = slab_count(g, operand_of<T>), taps = g.kernel_height * g.kernel_width;
  float sum = 0.0f;
#pragma unroll 1
  for (int slab = 0; slab < slabs; ++slab) {
#pragma unroll 1
    for (int tap = 0; tap < taps; ++tap) {
      const int row = corner.row + tap / g.kernel_width * g.dilation_height,
                column = corner.column + tap % g.kernel_width * g.dilation_width;
      if (row < 0 || row >= g.in_height || column < 0 || column >= g.in_width) continue;
      const int step = step_of(slab, tap, slabs, taps, chain_slabs(operand_of<T>)), channel = slab * terms;
      const unsigned char* block = weight + static_cast<std::size_t>(step) * block_bytes;
      const auto* x =
          static_cast<const Stored*>(args.input) +
          ((static_cast<std::size_t>(corner.image) * static_cast<unsigned>(g.in_height) + static_cast<unsigned>(row)) *
               static_cast<unsigned>(g.in_width) +
           static_cast<unsigned>(column)) *
              static_cast<unsigned>(g.in_channels) +
          channel;
      float chain = 0.0f;
#pragma unroll 1
      for (int i = 0; i < terms && channel + i < g.in_channels; ++i) {
        const float w = weight_at<T>(block, filter % block_filters, i) * before;
        chain = fmaf(w, Element<T>::value(x[i]), chain);
      }
      sum += chain;
    }
  }
  return sum * after;
}

template <class T>
__device__ __forceinline__ void write(const Arguments& args, std::size_t index, float y) {
  if (args.output_type == DType::f32) {
    static_cast<float*>(args.output)[index] = y;
  } else if constexpr (!in_f32<T>) {
    static_cast<T*>(args.output)[index] = static_cast<T>(y);
  }
}

__device__ __forceinline__ std::uint32_t pack(float low, float high, __half) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
__device__ __forceinline__ std::uint32_t pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// What a warpgroup finishes: filters first_filter .. + 63 of pixels first_pixel .. + n - 1.
struct Piece {
  int group = 0;  // the warpgroup within its block; its named barrier is group + 1
  int first_filter = 0, first_pixel = 0;
  float bias[2] = {};  // of this thread's two filters
  FilterRange range[2];
};

/// One sum, bias included, as it is stored.
template <class T>
__device__ __forceinline__ void write_finished(const Arguments& args, std::size_t index, float y) {
  if (!args.chained) return write<T>(args, index, activate(args, y));
  float v[1] = {y}, residual[1] = {};
  if (args.output_type == DType::f32) {
    load_residual<float>(args.finish, static_cast<std::int64_t>(index), residual);
  } else if constexpr (!in_f32<T>) {
    load_residual<T>(args.finish, static_cast<std::int64_t>(index), residual);
  }
  apply_chain(args.finish, v, residual);
  write<T>(args, index, v[0]);
}

/// Recomputes this thread's outputs whose sums are not finite, after the ordinary store.
template <class T, int n>
__device__ __forceinline__ void repair(const Arguments& args, const Piece& piece, const float (&d)[n / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  std::uint32_t found[4] = {};
#pragma unroll
  for (int i = 0; i < n / 2; ++i) {
    if (rare(d[i], piece.range[i / 2 % 2])) found[i / 32] |= 1u << i % 32;
  }
#pragma unroll 1
  for (int word = 0; word < (n / 2 + 31) / 32; ++word) {
    std::uint32_t bits = word == 0 ? found[0] : word == 1 ? found[1] : word == 2 ? found[2] : found[3];
#pragma unroll 1
    for (; bits != 0; bits &= bits - 1) {
      const int i = word * 32 + __ffs(static_cast<int>(bits)) - 1;
      const int pixel = piece.first_pixel + i / 4 * 8 + lane % 4 * 2 + i % 2;
      const int filter = piece.first_filter + warp * 16 + lane / 4 + i / 2 % 2 * 8;
      if (pixel >= args.pixels || filter >= args.geometry.out_channels) continue;
      const bool second = i / 2 % 2 != 0;
      const FilterRange& range = second ? piece.range[1] : piece.range[0];
      write_finished<T>(args,
                        static_cast<std::size_t>(pixel) * static_cast<unsigned>(args.geometry.out_channels) +
                            static_cast<unsigned>(filter),
                        exact_sum<T>(args, filter, pixel, range) + (second ? piece.bias[1] : piece.bias[0]));
    }
  }
}

/// Writes fragments [first, last) of 8 pixels into a store buffer, pixel by pixel, 128 bytes of channels each: 64 of 16
/// bits, or two planes of 32 f32. Eight rows of one matrix, or the 32 words of one store, meet all banks once.
template <class T, bool f32, int first, int last, int n>
__device__ __forceinline__ void fill(const Arguments& args, const Piece& piece, std::uint32_t buffer, int planes_apart,
                                     const float (&d)[n / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  if constexpr (f32) {
    const int g = lane / 4, pixel = lane % 4 * 2;
    const std::uint32_t plane = buffer + static_cast<std::uint32_t>(warp / 2 * planes_apart + g % 4 * 4);
#pragma unroll
    for (int j = first; j < last; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int chunk = (warp % 2 * 4 + i / 2 * 2 + g / 4) * 16;
        const float y = activate(args, d[4 * j + i] + piece.bias[i / 2]);
        const std::uint32_t address =
            plane + static_cast<std::uint32_t>((j - first) * 1024 + swizzled(pixel + i % 2, chunk));
        ptx::store_shared(address, y);
      }
    }
  } else {
    const int matrix = lane / 8, row = lane % 8;
    const std::uint32_t corner =
        buffer + static_cast<std::uint32_t>(matrix / 2 * 1024 + swizzled(row, (warp * 2 + matrix % 2) * 16));
#pragma unroll
    for (int j = first; j < last; j += 2) {
      std::uint32_t m[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        m[i] = pack(activate(args, d[4 * j + 2 * i] + piece.bias[i % 2]),
                    activate(args, d[4 * j + 2 * i + 1] + piece.bias[i % 2]), T{});
      }
      ptx::store_transposed(corner + static_cast<std::uint32_t>((j - first) * 1024), m);
    }
  }
}

}  // namespace lamina::cuda::channels_last
