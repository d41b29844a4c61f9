#pragma once

// What happens to a sum between the tensor cores and the output: exact repair, bias, the chain of functions, rounding;
// and the kernel that adds up the splits of K. All of it takes four filters of a pixel at a time, a quad.

#include <type_traits>

#include "lamina/cuda/conv2d/implicit_gemm/arguments.h"
#include "lamina/cuda/conv2d/implicit_gemm/operands.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::implicit_gemm {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// The window of one output pixel of this launch. Offsets wrap around modulo 2^32 where the corner lies in the padding;
/// the sum with a tap inside the image is right again.
__device__ inline Position window_at(const Arguments& args, int group, int pixel) {
  const ConvGeometry& g = args.geometry;
  const int plane = g.out_height * g.out_width;
  const int image = pixel / plane;
  const int row = (pixel - image * plane) / g.out_width;
  const int top = row * g.stride_height - g.padding_height;
  const int left = (pixel - image * plane - row * g.out_width) * g.stride_width - g.padding_width;

  const auto first = [](int corner, int dilation) {
    return corner >= 0 ? 0 : min((dilation - 1 - corner) / dilation, max_kernel);
  };
  const auto end = [](int corner, int dilation, int size, int kernel) {
    return corner >= size ? 0 : min((size - 1 - corner) / dilation + 1, kernel);
  };
  const unsigned rows = static_cast<unsigned>(128 - first(top, g.dilation_height)) |
                        static_cast<unsigned>(end(top, g.dilation_height, g.in_height, g.kernel_height)) << 8;
  const unsigned columns = static_cast<unsigned>(128 - first(left, g.dilation_width)) |
                           static_cast<unsigned>(end(left, g.dilation_width, g.in_width, g.kernel_width)) << 8;
  const unsigned corner =
      (static_cast<unsigned>(image) * static_cast<unsigned>(g.in_height) + static_cast<unsigned>(top)) *
          static_cast<unsigned>(g.in_width) +
      static_cast<unsigned>(left);
  return {corner * args.units_per_pixel + static_cast<unsigned>(group) * args.units_per_group, rows | columns << 16};
}

__device__ __forceinline__ bool inside(Position window, Position tap) {
  return ((window.bounds + tap.bounds) & 0x80808080u) == 0x80808080u;
}

/// One output's sum by plain fp32 multiply-adds, for the rare ones that the tensor cores cannot do. The split of fp32
/// has no terms for an Inf (Inf - Inf is a NaN) and overflows a little early, and an accumulator that overflows can
/// turn to NaN instead of Inf: all of these leave a sum that is not finite, which is how they are found.
template <class Op>
__device__ __noinline__ float exact_sum(const Arguments& args, int group, int m, int pixel) {
  using Element = typename Op::Element;
  const Position window = window_at(args, group, pixel);
  const int tile = group * args.m_tiles + m / args.block_m;
  const auto* weight = static_cast<const unsigned char*>(args.weight);
  constexpr unsigned terms = step_bytes / sizeof(Element);
  float sum = 0.0f;
  for (unsigned step = 0; step < static_cast<unsigned>(args.steps); ++step) {
    const unsigned char* rows = weight + (static_cast<std::size_t>(tile) * static_cast<unsigned>(args.steps) + step) *
                                             static_cast<unsigned>(args.block_m * step_bytes);
    float chain = 0.0f;  // short chains: where all products are alike, every addition rounds the same way
    for (unsigned k = 0; k < terms; ++k) {
      const Position tap = args.taps[(step * terms + k) / args.unit_elements];
      if (!inside(window, tap)) continue;
      const unsigned within = (step * terms + k) % args.unit_elements;
      // The zero weight that fills a folded kernel must not meet an Inf there.
      if (args.folded_kernel != 0 &&
          static_cast<int>((tap.bounds >> 16 & 0xffu) * Fold::pixels + within / Fold::channels) >= args.folded_kernel) {
        continue;
      }
      const std::size_t element = static_cast<std::size_t>(window.offset + tap.offset) * args.unit_elements + within;
      const int byte = swizzled(m % args.block_m, static_cast<int>(k * sizeof(Element)));
      chain = fmaf(static_cast<float>(*reinterpret_cast<const Element*>(rows + byte)),
                   Op::value(static_cast<float>(static_cast<const Element*>(args.input)[element])), chain);
    }
    sum += chain;
  }
  return sum;
}

/// What finishing needs to know of four filters.
template <class Op>
struct QuadEnd {
  static constexpr bool split = std::is_same_v<Op, SplitTf32>;
  float bias[4] = {};
  FilterRange range[split ? 4 : 1];

  /// Of filters m .. m + 3 of `group`, as many as there are.
  __device__ __forceinline__ QuadEnd(const Arguments& args, int group, int m) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (m + j >= args.group_out_channels) continue;
      const int channel = group * args.group_out_channels + m + j;
      if (args.bias != nullptr) bias[j] = __ldg(args.bias + channel);
      if constexpr (split) range[j] = args.filters[channel];
    }
  }
};

/// Finishes the sums of filters m .. m + 3 of `group` of `count` output pixels: pixel, pixel + apart, ...
template <class Op, class Output, int count>
__device__ __forceinline__ void finish_as(const Arguments& args, const QuadEnd<Op>& end, int group, int m, int pixel,
                                          int apart, float (&sum)[count][4]) {
  constexpr bool split = QuadEnd<Op>::split;
  const int channel = group * args.group_out_channels + m, filters = min(4, args.group_out_channels - m);
  const auto index_of = [&](int i) { return std::int64_t{pixel + i * apart} * args.out_pitch + channel; };
  auto* output = static_cast<Output*>(args.output);
  float residual[count][4] = {};
  if (args.finish.residual != nullptr) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (pixel + i * apart >= args.pixels) continue;
      if (args.out_in_quads) {
        load_residual<Output>(args.finish, index_of(i), residual[i]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (j < filters) residual[i][j] = to_f32(static_cast<const Output*>(args.finish.residual)[index_of(i) + j]);
        }
      }
    }
  }
  unsigned again = 0;
  static_assert(count * 4 <= 32, "a bit each");
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (pixel + i * apart >= args.pixels) continue;
    float v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const FilterRange range = split ? end.range[split ? j : 0] : FilterRange{};
      v[j] = split ? sum[i][j] * range.scale : sum[i][j];
      if (rare(v[j], range) && j < filters) again |= 1u << (i * 4 + j);
      v[j] += end.bias[j];
    }
    apply<Output>(args.finish, v, residual[i]);
    if (args.out_in_quads) {
      Pack<Output, 4> pack;
#pragma unroll
      for (int j = 0; j < 4; ++j) pack.values[j] = from_f32<Output>(v[j]);
      *reinterpret_cast<Pack<Output, 4>*>(output + index_of(i)) = pack;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j < filters) output[index_of(i) + j] = from_f32<Output>(v[j]);
      }
    }
  }
  // Found rarely and then overwritten, so that the common way has no branch in it. The residual may be where the output
  // is, and is gone by then: it is still in registers.
#pragma unroll 1
  for (; again != 0; again &= again - 1) {
    const int bit = __ffs(static_cast<int>(again)) - 1, i = bit / 4, j = bit % 4;
    float y = exact_sum<Op>(args, group, m + j, pixel + i * apart);
    if constexpr (split) y *= exact_scale(args.filters[channel + j]);
    if (args.bias != nullptr) y += args.bias[channel + j];
    float v[1] = {y}, r[1] = {};
#pragma unroll
    for (int k = 0; k < count * 4; ++k) {
      if (k == bit) r[0] = residual[k / 4][k % 4];
    }
    apply<Output>(args.finish, v, r);
    output[index_of(i) + j] = from_f32<Output>(v[0]);
  }
}

template <class Op, int count>
__device__ __forceinline__ void finish(const Arguments& args, const QuadEnd<Op>& end, int group, int m, int pixel,
                                       int apart, float (&sum)[count][4]) {
  using Element = typename Op::Element;
  if (sizeof(Element) == sizeof(float) || args.output_type == DType::f32) {
    finish_as<Op, float>(args, end, group, m, pixel, apart, sum);
  } else {
    finish_as<Op, Element>(args, end, group, m, pixel, apart, sum);
  }
}

/// Where a split's sums of a quad are.
__device__ __forceinline__ float4* partial_at(const Arguments& args, int split, int group, int m, int pixel) {
  return reinterpret_cast<float4*>(args.partial) +
         (static_cast<std::int64_t>(split) * args.pixels + pixel) * (args.geometry.groups * args.quads) +
         group * args.quads + m / 4;
}

#endif

/// Adds the splits of K in their order, so that the bits are the same every time. One thread per quad of filters of a
/// pixel of the launch.
template <class Op>
__global__ void __launch_bounds__(reduce_threads) implicit_gemm_reduce_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  let_successor_start();
  const std::int64_t thread = std::int64_t{blockIdx.x} * reduce_threads + threadIdx.x;
  const int quads = args.geometry.groups * args.quads;
  if (thread >= std::int64_t{args.pixels} * quads) return;
  const int pixel = static_cast<int>(thread / quads), quad = static_cast<int>(thread - std::int64_t{pixel} * quads);
  const int group = quad / args.quads, m = (quad - group * args.quads) * 4;
  const QuadEnd<Op> end(args, group, m);
  wait_for_predecessor();
  const float4* partial = partial_at(args, 0, group, m, pixel);
  float sum[1][4] = {};
#pragma unroll 8
  for (int split = 0; split < args.splits; ++split) {
    const float4 part = partial[static_cast<std::int64_t>(split) * args.pixels * quads];
    sum[0][0] += part.x, sum[0][1] += part.y, sum[0][2] += part.z, sum[0][3] += part.w;
  }
  finish<Op>(args, end, group, m, pixel, 1, sum);
#endif
}

}  // namespace lamina::cuda::implicit_gemm
