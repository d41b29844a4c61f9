#pragma once

// fp32 on TF32 tensor cores: x = high + low on both sides, three products. A warpgroup of its own writes the pixels'
// low words beside them as they land; the weights are split in the registers of those who multiply. Source: Ootomo and
// Yokota, "Recovering single precision accuracy from Tensor Cores" (2022). docs/implicit_gemm.md has the argument for
// the scales and for what is left to the exact path.

#include "lamina/cuda/conv2d/channels_last/ring.cuh"
#include "lamina/cuda/ptx/mma.cuh"

namespace lamina::cuda::channels_last {

using implicit_gemm::load_matrices;
using implicit_gemm::split_scale;
using implicit_gemm::split_tf32;

/// What the tensor cores do not see of x, scaled, and rounded to what they see.
__device__ __forceinline__ float low_word(float x) {
  const float rest = (x - __uint_as_float(__float_as_uint(x) & 0xffffe000u)) * split_scale;
  return __uint_as_float(__float_as_uint(rest) + 0x1000u);
}

/// The splitting warpgroup: low words go where the same pixel and channel lie, one plane on.
template <int groups, int n>
__device__ __forceinline__ void halve(const Arguments& args, const Shared<SplitTf32, groups, n>& shared, int rank) {
  using Ring_ = Shared<SplitTf32, groups, n>;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const Span span(args, rank);
  Ring ring{args.stages};
  for (Walk walk(args, rank); walk.more(); walk.next()) {
    for (int step = 0; step < span.count; ++step, ring.advance()) {
      first_layer::barrier_wait(shared.full + ring.stage, ring.parity);
      auto* pixels = reinterpret_cast<float4*>(shared.ring + ring.stage * Ring_::stage_bytes) + thread;
      constexpr int low = Ring_::low_offset / 16;
#pragma unroll
      for (int i = 0; i < n * 8 / 128; ++i) {
        const float4 x = pixels[i * 128];
        pixels[low + i * 128] = {low_word(x.x), low_word(x.y), low_word(x.z), low_word(x.w)};
      }
      first_layer::fence_async_proxy();
      first_layer::barrier_arrive(shared.halved + ring.stage);
    }
  }
}

/// A warp's 16 filters of one step, in the fragments that ldmatrix makes: high words, low words, and high words divided
/// by split_scale, which the pixels' low words are multiplied by.
struct SplitWeights {
  unsigned high[4][4], low[4][4], down[4][4];

  /// From `address` on: this lane's row of the first piece of 32 bytes of K.
  __device__ __forceinline__ void load(std::uint32_t address) {
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      load_matrices(high[piece], address ^ static_cast<std::uint32_t>(piece << 5));
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float rest;
        split_tf32(high[piece][r], high[piece][r], rest);
        low[piece][r] = __float_as_uint(rest);
        down[piece][r] = __float_as_uint(__uint_as_float(high[piece][r]) * (1.0f / split_scale));
      }
    }
  }

  /// The compiler does not know that products read these registers until they have been waited for.
  __device__ __forceinline__ void pin() {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      asm volatile("" : "+r"(high[i / 4][i % 4]), "+r"(low[i / 4][i % 4]), "+r"(down[i / 4][i % 4])::"memory");
    }
  }
};

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
    return shared_address(shared.ring) + static_cast<std::uint32_t>(stage * Ring_::stage_bytes);
  }

  __device__ __forceinline__ void load(SplitWeights& weights, const Ring& ring) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    first_layer::barrier_wait(shared.full + ring.stage, ring.parity);
    weights.load(tile(ring.stage) + static_cast<std::uint32_t>(Ring_::weight_offset + group * block_bytes +
                                                               swizzled(warp * 16 + lane % 16, lane / 16 * 16)));
  }

  /// One step's products are added to `sum`; meanwhile `next` is loaded if there is a next step.
  __device__ __forceinline__ void step(Ring& ring, SplitWeights& weights, SplitWeights& next, bool more,
                                       float (&sum)[n / 2]) const {
    const std::uint64_t b = descriptor(tile(ring.stage)), b_low = descriptor(tile(ring.stage) + Ring_::low_offset);
    first_layer::barrier_wait(shared.halved + ring.stage, ring.parity);
    float chain[n / 2];
    first_layer::wgmma_fence();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      const auto at = static_cast<unsigned>(piece * 2);
      RegisterProduct<n>::issue(chain, weights.low[piece], b + at, piece > 0);
      RegisterProduct<n>::issue(chain, weights.down[piece], b_low + at, true);
      RegisterProduct<n>::issue(chain, weights.high[piece], b + at, true);
    }
    first_layer::wgmma_commit();
    const int stage = ring.stage;
    ring.advance();
    if constexpr (runs_ahead) {
      if (more) load(next, ring);
    }
    wait_products<0>();
    weights.pin();
    first_layer::pin(chain);
    release(args, shared, stage);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) sum[i] += chain[i];
  }

  __device__ __forceinline__ void run(Ring& ring, int steps, float (&sum)[n / 2]) const {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) sum[i] = 0.0f;
    SplitWeights weights;
    if constexpr (runs_ahead) {
      SplitWeights next;
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
