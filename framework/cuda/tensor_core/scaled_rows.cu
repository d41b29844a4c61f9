#include "lamina/cuda/tensor_core/scaled_rows.h"

#include <cuda_fp16.h>

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int threads = 256, team = 16, pixels_at_once = threads / team;

__device__ __forceinline__ std::uint32_t bits(__half2 pair) { return *reinterpret_cast<const std::uint32_t*>(&pair); }

/// Sixteen threads for a block of channels, each with 4 or 8 of them. Thread blocks of the same pixels and different
/// channels are neighbours, and read the same pages of memory.
template <bool pairs>
__global__ void __launch_bounds__(threads) scale_rows_kernel(const ScaledRows task) {
  constexpr int own = pairs ? 4 : 8;
  constexpr std::uint32_t infinite = 0xffu;  // exponent
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % team;
  const int channel = (static_cast<int>(blockIdx.x) * team + lane) * own;
  const int slabs = (task.channels + own * team / 2 - 1) / (own * team / 2);
  const int slab = static_cast<int>(blockIdx.x) * 2 + lane / (team / 2), place = lane % (team / 2);
  const auto apart = static_cast<std::int64_t>(gridDim.y) * pixels_at_once;
  for (std::int64_t first = std::int64_t{blockIdx.y} * pixels_at_once; first < task.pixels; first += apart) {
    const std::int64_t pixel = first + threadIdx.x / team;
    float x[own] = {};
#pragma unroll
    for (int i = 0; i < own; i += 4) {
      if (pixel >= task.pixels || channel + i >= task.channels) continue;
      const float4 v = *reinterpret_cast<const float4*>(task.input + pixel * task.channels + channel + i);
      x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
    }
    std::uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < own; ++i) largest = max(largest, __float_as_uint(x[i]) & 0x7fffffffu);
#pragma unroll
    for (int away = 1; away < team; away *= 2) {
      largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, away));
    }
    // Exponents are biased by 127. At the upper end the power's inverse would be subnormal; there every f32 is exact.
    const std::uint32_t exponent = min(127u + 14u + 127u - (largest >> 23), 253u);
    const float power = __uint_as_float(exponent << 23);
    bool doubtful = largest >> 23 == infinite;
    std::uint32_t high[own / 2], low[own / 2];
#pragma unroll
    for (int i = 0; i < own; i += 2) {
      const float a = x[i] * power, b = x[i + 1] * power;
      const __half2 words = __floats2half2_rn(a, b);
      const float2 seen = __half22float2(words);
      high[i / 2] = bits(words);
      low[i / 2] = bits(__floats2half2_rn((a - seen.x) * low_word_scale, (b - seen.y) * low_word_scale));
      doubtful |=
          task.strict && ((fabsf(a) < least_scaled && x[i] != 0.0f) || (fabsf(b) < least_scaled && x[i + 1] != 0.0f));
    }
    const std::uint32_t votes = __ballot_sync(0xffffffffu, doubtful);
    if (pixel >= task.pixels) continue;
    if (slab < slabs) {
      auto* row = static_cast<unsigned char*>(task.rows) + (pixel * slabs + slab) * 128;
      if constexpr (pairs) {
        reinterpret_cast<uint2*>(row)[place] = {high[0], high[1]};
        reinterpret_cast<uint2*>(row)[team / 2 + place] = {low[0], low[1]};
      } else {
        reinterpret_cast<uint4*>(row)[place] = {high[0], high[1], high[2], high[3]};
      }
    }
    if (lane != 0) continue;
    const bool any = (votes >> threadIdx.x % 32 & 0xffffu) != 0;
    task.scales[blockIdx.x * task.pixels + pixel] = __uint_as_float(any ? 0x7fffffffu : (254u - exponent) << 23);
  }
}

}  // namespace

void scale_rows(const ScaledRows& task, Stream stream) {
  constexpr std::int64_t max_blocks = 65535;
  const std::int64_t blocks =
      std::min<std::int64_t>(detail::ceil_div<std::int64_t>(task.pixels, pixels_at_once), max_blocks);
  const dim3 grid(static_cast<unsigned>(detail::ceil_div(task.channels, task.pairs ? 64 : 128)),
                  static_cast<unsigned>(blocks));
  launch_kernel(task.pairs ? scale_rows_kernel<true> : scale_rows_kernel<false>, {grid, dim3(threads)},
                static_cast<cudaStream_t>(stream), task);
}

}  // namespace lamina::cuda
