#pragma once

// What the consumers of stream.cuh make of the stages that have landed: sums over a block's piece of K.

#include "lamina/cuda/linear/stream_ring.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"
#include "lamina/cuda/tensor_core/chain.h"
#include "lamina/cuda/tensor_core/operand_rows.h"

namespace lamina::cuda::linear_stream {

/// A warpgroup's sums by tensor cores: 64 outputs x n rows, in the fragments of wgmma.
template <class T, class S, int n>
__device__ __forceinline__ void multiply(const Arguments& args, const Shared<S>& shared, int group, int steps,
                                         float (&d)[n / 2]) {
  const std::uint32_t base = ptx::shared_address(shared.ring);
  const bool speaks = threadIdx.x % 32 == 0;
  const auto operands = [&](int stage) -> StageOperands {
    const std::uint32_t tile = base + static_cast<std::uint32_t>(stage * S::stage_bytes);
    return {ptx::rows_descriptor(tile + static_cast<std::uint32_t>(group * block_bytes)),
            ptx::rows_descriptor(tile + S::weight_bytes)};
  };
  TeamRing ring{{args.stages}};
  multiply_stages<T, n>(ring, shared.full, steps, d, operands, [&](int stage) {
    if (speaks) ptx::barrier_arrive(shared.empty + stage);
  });
}

/// Sums over the lanes whose numbers differ in `distance`: each half of the rows stays with one of two lanes; one row
/// is summed in both.
template <int rows>
__device__ __forceinline__ void sum_over_lanes(const float (&v)[rows][4], int distance, float (&sum)[4]) {
  const bool upper = (threadIdx.x & static_cast<unsigned>(distance)) != 0;
  constexpr int half = rows > 1 ? rows / 2 : 1;
  float kept[half][4];
#pragma unroll
  for (int r = 0; r < half; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float mine = rows > 1 && upper ? v[r + rows / 2][i] : v[r][i];
      const float other = rows > 1 && !upper ? v[r + rows / 2][i] : v[r][i];
      kept[r][i] = mine + __shfl_xor_sync(0xffffffffu, other, distance);
    }
  }
  if (distance > 1) return sum_over_lanes<half>(kept, distance / 2, sum);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = kept[0][i];
}

/// A team's sums by multiply-adds: thread (4 outputs, a 16-byte chunk of the step's terms) ends with 4 outputs of row
/// chunk * n / 8. No chain is longer than max_chain.
template <class S, int groups, int n>
__device__ __forceinline__ void multiply_f32(const Arguments& args, const Shared<S>& shared, int team, int steps,
                                             float (&d)[4]) {
  const int thread = static_cast<int>(threadIdx.x) % 128, chunk = thread % 8, first = thread / 8 * 4;
  float total[n][4] = {}, sum[n][4] = {};
  const auto fold = [&] {
#pragma unroll
    for (int r = 0; r < n; ++r) {
#pragma unroll
      for (int o = 0; o < 4; ++o) total[r][o] += sum[r][o], sum[r][o] = 0.0f;
    }
  };
  // The number of stages is a multiple of the teams': each stage is always the same team's. A team that came to a stage
  // before the other's bytes had landed there would take the phase that is over for its own.
  TeamRing ring{{args.stages}};
  ring.advance(team);
  int chain = 0;
  for (int step = team; step < steps; step += groups, ring.advance(groups)) {
    ptx::barrier_wait(shared.full + ring.stage, ring.parity);
    const unsigned char* stage = shared.ring + ring.stage * S::stage_bytes;
    float4 w[4];
#pragma unroll
    for (int o = 0; o < 4; ++o) w[o] = *reinterpret_cast<const float4*>(stage + swizzled(first + o, chunk * 16));
#pragma unroll
    for (int r = 0; r < n; ++r) {
      const auto x = *reinterpret_cast<const float4*>(stage + S::weight_bytes + r * step_bytes + chunk * 16);
#pragma unroll
      for (int o = 0; o < 4; ++o) {
        sum[r][o] = fmaf(w[o].x, x.x, sum[r][o]);
        sum[r][o] = fmaf(w[o].y, x.y, sum[r][o]);
        sum[r][o] = fmaf(w[o].z, x.z, sum[r][o]);
        sum[r][o] = fmaf(w[o].w, x.w, sum[r][o]);
      }
    }
    ptx::barrier_arrive(shared.empty + ring.stage);
    if (++chain == max_chain / 4) chain = 0, fold();
  }
  fold();
  sum_over_lanes<n>(total, 4, d);
}

}  // namespace lamina::cuda::linear_stream
