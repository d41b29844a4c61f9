#pragma once

// fp32 on TF32 tensor cores: x = high + low on both sides, three products. A warpgroup of its own writes the pixels'
// low words beside them as they land; the weights are split in the registers of those who multiply. Source: Ootomo and
// Yokota, "Recovering single precision accuracy from Tensor Cores" (2022). docs/inside/implicit_gemm.md has the
// argument for the scales and for what is left to the exact path.

#include "lamina/cuda/conv2d/channels_last/ring.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"
#include "lamina/cuda/tensor_core/split_tf32.cuh"

namespace lamina::cuda::channels_last {

/// The splitting warpgroup: low words go where the same pixel and channel lie, one plane on.
template <int groups, int n>
__device__ __forceinline__ void make_low_words(const Arguments& args, const Shared<SplitTf32, groups, n>& shared,
                                               int rank) {
  using Ring_ = Shared<SplitTf32, groups, n>;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const Span span(args, rank);
  Ring ring{args.stages};
  for (Walk walk(args, rank); walk.more(); walk.next()) {
    for (int step = 0; step < span.count; ++step, ring.advance()) {
      ptx::barrier_wait(shared.full + ring.stage, ring.parity);
      auto* pixels = reinterpret_cast<float4*>(shared.ring + ring.stage * Ring_::stage_bytes) + thread;
      constexpr int low = Ring_::low_offset / 16;
#pragma unroll
      for (int i = 0; i < n * 8 / 128; ++i) {
        const float4 x = pixels[i * 128];
        pixels[low + i * 128] = {low_word(x.x), low_word(x.y), low_word(x.z), low_word(x.w)};
      }
      ptx::fence_async_proxy();
      ptx::barrier_arrive(shared.low_words + ring.stage);
    }
  }
}

/// A warpgroup's products. Each step, 32 terms, is a chain of its own, because tensor cores truncate as they add.
/// A warpgroup that is alone splits the next step's weights while this one's are multiplied, if that leaves enough
/// registers; of several, one multiplies while another splits.
template <int groups, int n>
struct SplitProducts {
  using Ring_ = Shared<SplitTf32, groups, n>;
  static constexpr bool runs_ahead = groups == 1 && n <= 64;
  const Arguments& args;
  const Ring_& shared;
  const int group;

  __device__ __forceinline__ std::uint32_t tile(int stage) const {
    return ptx::shared_address(shared.ring) + static_cast<std::uint32_t>(stage * Ring_::stage_bytes);
  }

  __device__ __forceinline__ void load(SplitRows& weights, const Ring& ring) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    ptx::barrier_wait(shared.full + ring.stage, ring.parity);
    weights.load(tile(ring.stage) + static_cast<std::uint32_t>(Ring_::weight_offset + group * block_bytes +
                                                               swizzled(warp * 16 + lane % 16, lane / 16 * 16)));
  }

  /// One step's products are added to `sum`; meanwhile `next` is loaded if there is a next step.
  __device__ __forceinline__ void step(Ring& ring, SplitRows& weights, SplitRows& next, bool more,
                                       float (&sum)[n / 2]) const {
    const std::uint64_t b = ptx::rows_descriptor(tile(ring.stage)),
                        b_low = ptx::rows_descriptor(tile(ring.stage) + Ring_::low_offset);
    ptx::barrier_wait(shared.low_words + ring.stage, ring.parity);
    float chain[n / 2];
    ptx::wgmma_fence();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      const auto at = static_cast<unsigned>(piece * 2);
      ptx::wgmma(chain, weights.low[piece], b + at, piece > 0);
      ptx::wgmma(chain, weights.down[piece], b_low + at, true);
      ptx::wgmma(chain, weights.high[piece], b + at, true);
    }
    ptx::wgmma_commit();
    const int stage = ring.stage;
    ring.advance();
    if constexpr (runs_ahead) {
      if (more) load(next, ring);
    }
    ptx::wgmma_wait<0>();
    weights.pin();
    ptx::pin(chain);
    release(args, shared, stage);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) sum[i] += chain[i];
  }

  __device__ __forceinline__ void run(Ring& ring, int steps, float (&sum)[n / 2]) const {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) sum[i] = 0.0f;
    SplitRows weights;
    if constexpr (runs_ahead) {
      SplitRows next;
      load(weights, ring);
      for (int i = 0; i < steps; i += 2) {
        step(ring, weights, next, i + 1 < steps, sum);
        if (i + 1 < steps) step(ring, next, weights, i + 2 < steps, sum);
      }
    } else {
      for (int i = 0; i < steps; ++i) {
        load(weights, ring);
        step(ring, weights, weights, false, sum);
      }
    }
  }
};

}  // namespace lamina::cuda::channels_last
