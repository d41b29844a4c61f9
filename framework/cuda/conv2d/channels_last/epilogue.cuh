#pragma once

// From a warpgroup's sums to the output: exact repair of rare ones, bias, ReLU, rounding, and the way through shared
// memory that turns filters x pixels into pixels x filters. chain.cuh has the way of longer chains.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lamina/cuda/conv2d/channels_last/arguments.h"
#include "lamina/cuda/conv2d/channels_last/place.cuh"
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

/// u8 or i8, with weights of i8.
struct Codes {};

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

template <>
struct Element<Codes> {
  using Stored = std::uint8_t;
  static constexpr bool repaired = false;
};

template <class T>
inline constexpr bool in_f32 = sizeof(typename Element<T>::Stored) == 4;

template <class T>
inline constexpr Operand operand_of = std::is_same_v<T, __half>          ? Operand::fp16
                                      : std::is_same_v<T, __nv_bfloat16> ? Operand::bf16
                                      : std::is_same_v<T, Tf32>          ? Operand::tf32
                                      : std::is_same_v<T, SplitTf32>     ? Operand::split_tf32
                                      : std::is_same_v<T, ScaledF16>     ? Operand::scaled_f16
                                      : std::is_same_v<T, Codes>         ? Operand::codes
                                                                         : Operand::scaled_pairs;
template <class T>
inline constexpr bool split = operand_of<T> == Operand::split_tf32;
template <class T>
inline constexpr bool scaled = is_scaled(operand_of<T>);
template <class T>
inline constexpr bool ranged = split<T> || scaled<T>;  // filters have a FilterRange

/// Tiles that have registers for more than a clamp.
template <int groups, int n>
inline constexpr bool roomy = (groups < 4) && (groups * n < 720);
/// Of those, the ones that do not spill for an addition behind a function.
template <int groups, int n>
inline constexpr bool may_add_last = groups == 2 || (groups == 1 && n < 128);
/// And those that have them for an addition.
template <class T, int groups, int n>
inline constexpr bool may_add = roomy<groups, n> || std::is_same_v<T, Codes>;

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
  const auto* weight =
      static_cast<const unsigned char*>(args.weight) +
      static_cast<std::size_t>(filter / block_filters) * static_cast<unsigned>(args.steps) * block_bytes;
  float sum = 0.0f;
#pragma unroll 1
  for (int part = 0; part < (!in_f32<T> && args.first_steps < args.steps ? 2 : 1); ++part) {
    const ConvGeometry& g = part == 0 ? args.geometry : args.second;
    const void* input = part == 0 ? args.input : args.second_input;
    const ptx::Corner corner = corner_of(g, pixel);
    const int slabs = slab_count(g, operand_of<T>), taps = g.kernel_height * g.kernel_width;
    const int of_group = args.group_filters > 0 ? filter / args.group_filters * args.group_channels : 0;
#pragma unroll 1
    for (int slab = 0; slab < slabs; ++slab) {
#pragma unroll 1
      for (int tap = 0; tap < taps; ++tap) {
        const int row = corner.row + tap / g.kernel_width * g.dilation_height,
                  column = corner.column + tap % g.kernel_width * g.dilation_width;
        if (row < 0 || row >= g.in_height || column < 0 || column >= g.in_width) continue;
        const int step = step_of(slab, tap, slabs, taps, chain_slabs(operand_of<T>)), channel = slab * terms;
        const unsigned char* block = weight + static_cast<std::size_t>(step) * block_bytes;
        const auto* x = static_cast<const Stored*>(input) +
                        ((static_cast<std::size_t>(corner.image) * static_cast<unsigned>(g.in_height) +
                          static_cast<unsigned>(row)) *
                             static_cast<unsigned>(g.in_width) +
                         static_cast<unsigned>(column)) *
                            static_cast<unsigned>(part == 0 ? args.in_pitch : g.in_channels) +
                        of_group + channel;
        float chain = 0.0f;
#pragma unroll 1
        for (int i = 0; i < terms && channel + i < g.in_channels; ++i) {
          const float w = weight_at<T>(block, filter % block_filters, i) * before;
          chain = fmaf(w, Element<T>::value(x[i]), chain);
        }
        sum += chain;
      }
    }
    weight += static_cast<std::size_t>(args.first_steps) * block_bytes;
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
__device__ __forceinline__ float2 unpack(float2 both, float) { return both; }
__device__ __forceinline__ float2 unpack(std::uint32_t both, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&both));
}
__device__ __forceinline__ float2 unpack(std::uint32_t both, __nv_bfloat16) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&both));
}

/// All that is done to neighbouring channels' sums, bias included, and what is added to them.
template <class T, bool may_add_last = true, int n>
__device__ __forceinline__ void finish(const Arguments& args, float (&v)[n], const float (&added)[n]) {
  if (args.finish.kind == Finish::Kind::chain) return apply_chain(args.finish, v, added);
  const bool last = may_add_last && args.finish.addition == Finish::Addition::last;
  float first[n];
#pragma unroll
  for (int j = 0; j < n; ++j) first[j] = last ? 0.0f : added[j];
  apply_inlined<typename Element<T>::Stored>(args.finish, v, first);
#pragma unroll
  for (int j = 0; j < n; ++j) v[j] = last ? v[j] + added[j] : v[j];
}

/// One sum, bias included, as it is stored.
template <class T>
__device__ __forceinline__ void write_finished(const Arguments& args, std::size_t index, float y) {
  float v[1] = {y}, added[1] = {};
  load_residual<typename Element<T>::Stored>(args.finish, static_cast<std::int64_t>(index), added);
  finish<T>(args, v, added);
  write<T>(args, index, v[0]);
}

/// What a warpgroup finishes: filters first_filter .. + 63 of the pixels of a place.
template <class Place>
struct Piece {
  int group = 0;  // the warpgroup within its block; its named barrier is group + 1
  int first_filter = 0;
  Place place;
  float bias[2] = {};  // of this thread's two filters
  FilterRange range[2];
};

}  // namespace lamina::cuda::channels_last
