#pragma once

// What happens to a sum between the tensor cores and the output: exact repair, bias, ReLU, rounding; and the kernel
// that adds up the splits of K.

#include "lamina/cuda/mma_sync.cuh"

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
    return corner >= 0 ? 0 : min((dilation - 1 - corner) / dilation, largest_kernel);
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

/// Writes output element `index` [images, OC, OH, OW]: filter `m` of `group`, output pixel `pixel` of this launch.
template <class Op>
__device__ __forceinline__ void finish(const Arguments& args, int group, int m, int pixel, std::int64_t index,
                                       float sum) {
  const int channel = group * args.group_out_channels + m;
  bool exact = !(fabsf(sum) < INFINITY);
  if constexpr (std::is_same_v<Op, SplitTf32>) {
    const FilterRange filter = args.filters[channel];
    exact |= filter.scale == 0.0f || (fabsf(sum) < filter.smallest && sum != 0.0f);
    if (exact) sum = exact_sum<Op>(args, group, m, pixel);
    if (filter.scale != 0.0f) sum *= filter.scale;
  } else {
    if (exact) sum = exact_sum<Op>(args, group, m, pixel);
  }
  if (args.bias != nullptr) sum += __ldg(args.bias + channel);
  if (args.relu) sum = sum < 0.0f ? 0.0f : sum;
  if (args.output_type == DType::f32) {
    static_cast<float*>(args.output)[index] = sum;
  } else if (args.output_type == DType::f16) {
    static_cast<__half*>(args.output)[index] = __float2half_rn(sum);
  } else {
    static_cast<__nv_bfloat16*>(args.output)[index] = __float2bfloat16_rn(sum);
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
    float sum = 0.0f;
    for (int split = 0; split < args.splits; ++split) {
      sum += partial[std::int64_t{split} * channels * args.pixels];
    }
    const std::int64_t index = (std::int64_t{image} * channels + channel) * plane + (pixel - image * plane);
    finish<Op>(args, channel / args.group_out_channels, channel % args.group_out_channels, pixel, index, sum);
  }
#endif
}

}  // namespace lamina::cuda::implicit_gemm
