#pragma once

// A thread owns one pack of one output pixel and reads its window from memory: any geometry.
// Preconditions: Arguments filled in by depthwise.cpp.

#include "lamina/cuda/conv2d/depthwise/arguments.h"
#include "lamina/cuda/conv2d/depthwise/windows.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/tensor_core/chain.h"

namespace lamina::cuda::depthwise {

template <class T, int pack>
__global__ void __launch_bounds__(max_threads) general_kernel(const __grid_constant__ Arguments args) {
  let_successor_start();
  const ConvGeometry& g = args.geometry;
  const int packs = g.in_channels / pack;
  const std::int64_t count = g.batch * g.out_height * g.out_width * packs;
  wait_for_predecessor();
  for (std::int64_t i = std::int64_t{blockIdx.x} * max_threads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * max_threads) {
    const int channel = static_cast<int>(i % packs) * pack;
    std::int64_t rest = i / packs;
    const int column = static_cast<int>(rest % g.out_width);
    rest /= g.out_width;
    const int row = static_cast<int>(rest % g.out_height);
    const std::int64_t image = rest / g.out_height;
    const int top = row * g.stride_height - g.padding_height, left = column * g.stride_width - g.padding_width;
    const auto* input =
        static_cast<const T*>(args.input) + image * g.in_height * g.in_width * args.input_pitch + channel;
    const auto* const weight = static_cast<const float*>(args.weight);
    float sum[pack] = {};
    for (int kh = 0; kh < g.kernel_height; ++kh) {
      const int y = top + kh * g.dilation_height;
      if (y < 0 || y >= g.in_height) continue;
      float chain[pack] = {};
      for (int kw = 0; kw < g.kernel_width; ++kw) {
        const int x = left + kw * g.dilation_width;
        if (x < 0 || x >= g.in_width) continue;
        float value[pack], w[pack];
        to_floats<T, pack>(reinterpret_cast<const unsigned char*>(
                               input + (static_cast<std::int64_t>(y) * g.in_width + x) * args.input_pitch),
                           value);
        to_floats<float, pack>(
            reinterpret_cast<const unsigned char*>(weight + (kh * g.kernel_width + kw) * g.in_channels + channel), w);
#pragma unroll
        for (int j = 0; j < pack; ++j) chain[j] = fmaf(value[j], w[j], chain[j]);
        if (kw % max_chain != max_chain - 1) continue;
#pragma unroll
        for (int j = 0; j < pack; ++j) sum[j] += chain[j], chain[j] = 0.0f;
      }
#pragma unroll
      for (int j = 0; j < pack; ++j) sum[j] += chain[j];
    }
    const std::int64_t output = i / packs * args.output_pitch + channel;
    float residual[pack];
    load_residual<T>(args.finish, output, residual);
#pragma unroll
    for (int j = 0; j < pack; ++j) sum[j] += static_cast<const float*>(args.bias)[channel + j];
    apply<T>(args.finish, sum, residual);
    Pack<T, pack> result;
#pragma unroll
    for (int j = 0; j < pack; ++j) result.values[j] = from_f32<T>(sum[j]);
    *reinterpret_cast<Pack<T, pack>*>(static_cast<T*>(args.output) + output) = result;
  }
}

}  // namespace lamina::cuda::depthwise
