#pragma once

// What happens to a sum between the tensor cores and the output: exact repair, bias, ReLU, rounding; and the kernel
// that adds up the splits of K.

#include <type_traits>

#include "lamina/cuda/conv2d/implicit_gemm/arguments.h"
#include "lamina/cuda/conv2d/implicit_gemm/operands.cuh"

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
      const std::size_t element = static_cast<std::size_t>(window.offset + tap.offset) * args.unit_elements +
                                  (step * terms + k) % args.unit_elements;
      const int byte = swizzled(m % args.block_m, static_cast<int>(k * sizeof(Element)));
      chain = fmaf(static_cast<float>(*reinterpret_cast<const Element*>(rows + byte)),
                   static_cast<float>(static_cast<const Element*>(args.input)[element]), chain);
    }
    sum += chain;
  }
  return sum;
}

__device__ inline void write(float* output, float value) { *output = value; }
__device__ inline void write(__half* output, float value) { *output = __float2half_rn(value); }
__device__ inline void write(__nv_bfloat16* output, float value) { *output = __float2bfloat16_rn(value); }

/// What finishing needs to know of a filter, in one 16-byte load.
struct alignas(16) FilterEnd {
  float bias = 0.0f;
  FilterRange range;  // fp32 only
};

template <class Op>
__device__ __forceinline__ FilterEnd filter_end(const Arguments& args, int channel) {
  FilterEnd end;
  if (args.bias != nullptr) end.bias = __ldg(args.bias + channel);
  if constexpr (std::is_same_v<Op, SplitTf32>) end.range = args.filters[channel];
  return end;
}

/// Finishes `count` sums of one output pixel: filters m, m + m_step, ... of `group`, those below end_m, whose outputs
/// are m_step * stride apart from `index` on.
template <class Op, int m_step, class Output, int count>
__device__ __forceinline__ void finish_as(Output* output, const Arguments& args, int group, int m, int end_m, int pixel,
                                          std::int64_t index, std::int64_t stride, const float (&sum)[count],
                                          const FilterEnd (&filter)[count]) {
  constexpr bool split = std::is_same_v<Op, SplitTf32>;
  const auto activate = [&args](float y) { return args.relu && y < 0.0f ? 0.0f : y; };
  unsigned again = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (m + i * m_step >= end_m) continue;
    const FilterRange range = filter[i].range;
    const float y = split ? sum[i] * range.scale : sum[i];
    if (rare(y, range)) again |= 1u << i;
    write(output + index + i * m_step * stride, activate(y + filter[i].bias));
  }
  // Found rarely and then overwritten, so that the common way has no branch in it.
  for (; again != 0; again &= again - 1) {
    const int i = __ffs(static_cast<int>(again)) - 1;
    const FilterEnd end = filter_end<Op>(args, group * args.group_out_channels + m + i * m_step);
    float y = exact_sum<Op>(args, group, m + i * m_step, pixel);
    if constexpr (split) y *= exact_scale(end.range);
    write(output + index + i * m_step * stride, activate(y + end.bias));
  }
}

template <class Op, int m_step, int count>
__device__ __forceinline__ void finish(const Arguments& args, int group, int m, int end_m, int pixel,
                                       std::int64_t index, std::int64_t stride, const float (&sum)[count],
                                       const FilterEnd (&filter)[count]) {
  using Element = typename Op::Element;
  if (sizeof(Element) == sizeof(float) || args.output_type == DType::f32) {
    finish_as<Op, m_step>(static_cast<float*>(args.output), args, group, m, end_m, pixel, index, stride, sum, filter);
  } else {
    finish_as<Op, m_step>(static_cast<Element*>(args.output), args, group, m, end_m, pixel, index, stride, sum, filter);
  }
}

#endif

/// Adds the splits of K in their order, so that the bits are the same every time. One thread per output of the launch;
/// neighbours are neighbouring pixels.
template <class Op>
__global__ void __launch_bounds__(threads) implicit_gemm_reduce_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  const int pixel = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (pixel >= args.pixels) return;
  const int plane = args.geometry.out_height * args.geometry.out_width;
  const int image = pixel / plane;
  const int channels = args.geometry.out_channels;
  // The grid's second axis is at most 65,535 tall.
  for (int channel = static_cast<int>(blockIdx.y); channel < channels; channel += static_cast<int>(gridDim.y)) {
    const float* partial = args.partial + std::int64_t{channel} * args.pixels + pixel;
    float sum[1] = {};
#pragma unroll 8
    for (int split = 0; split < args.splits; ++split) sum[0] += partial[std::int64_t{split} * channels * args.pixels];
    const std::int64_t index = (std::int64_t{image} * channels + channel) * plane + (pixel - image * plane);
    const int group = channel / args.group_out_channels, m = channel - group * args.group_out_channels;
    const FilterEnd filter[1] = {filter_end<Op>(args, channel)};
    finish<Op, 1>(args, group, m, m + 1, pixel, index, 0, sum, filter);
  }
#endif
}

}  // namespace lamina::cuda::implicit_gemm
