#pragma once

// fp32 on TF32 tensor cores: x = high + low on both sides, three products. A warpgroup of its own writes the pixels'
// low words beside them as they land; the weights are split in the registers of those who multiply. Source: Ootomo and
// Yokota, "Recovering single precision accuracy from Tensor Cores" (2022). docs/implicit_gemm.md has the argument for
// the scales and for what is left to the exact path.

#include "lamina/cuda/mma_sync.cuh"
#include "lamina/cuda/nhwc_ring.cuh"

namespace lamina::cuda::nhwc {

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
      sm90::barrier_wait(shared.full + ring.stage, ring.parity);
      auto* pixels = reinterpret_cast<float4*>(shared.ring + ring.stage * Ring_::stage_bytes) + thread;
      constexpr int low = Ring_::low_offset / 16;
#pragma unroll
      for (int i = 0; i < n * 8 / 128; ++i) {
        const float4 x = pixels[i * 128];
        pixels[low + i * 128] = {low_word(x.x), low_word(x.y), low_word(x.z), low_word(x.w)};
      }
      sm90::fence_async_proxy();
      __syncwarp();
      if (thread % 32 == 0) sm90::barrier_arrive(shared.halved + ring.stage);
    }
  }
}

/// A warpgroup's products. Each step, 32 terms, is a chain of its own, because tensor cores truncate as they add.
template <int groups, int n>
__device__ __forceinline__ void multiply_split(const Arguments& args, const Shared<SplitTf32, groups, n>& shared,
                                               Ring& ring, int group, int steps, float (&sum)[n / 2]) {
  using Ring_ = Shared<SplitTf32, groups, n>;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const std::uint32_t base = shared_address(shared.ring);
  const auto row = static_cast<std::uint32_t>(swizzled(warp * 16 + lane % 16, lane / 16 * 16));
#pragma unroll
  for (int i = 0; i < n / 2; ++i) sum[i] = 0.0f;
  for (int step = 0; step < steps; ++step, ring.advance()) {
    sm90::barrier_wait(shared.full + ring.stage, ring.parity);
    const std::uint32_t tile = base + static_cast<std::uint32_t>(ring.stage * Ring_::stage_bytes);
    const std::uint32_t weights = tile + static_cast<std::uint32_t>(Ring_::weight_offset + group * block_bytes) + row;
    unsigned high[4][4], low[4][4], down[4][4];
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      load_matrices(high[piece], weights ^ static_cast<std::uint32_t>(piece << 5));
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float rest;
        split_tf32(high[piece][r], high[piece][r], rest);
        low[piece][r] = __float_as_uint(rest);
        down[piece][r] = __float_as_uint(__uint_as_float(high[piece][r]) * (1.0f / split_scale));
      }
    }
    sm90::barrier_wait(shared.halved + ring.stage, ring.parity);
    const std::uint64_t b = descriptor(tile), b_low = descriptor(tile + Ring_::low_offset);
    float chain[n / 2];
    sm90::wgmma_fence();
#pragma unroll
    for (int piece = 0; piece < 4; ++piece) {
      RegisterProduct<n>::issue(chain, low[piece], b + static_cast<unsigned>(piece * 2), piece > 0);
      RegisterProduct<n>::issue(chain, down[piece], b_low + static_cast<unsigned>(piece * 2), true);
      RegisterProduct<n>::issue(chain, high[piece], b + static_cast<unsigned>(piece * 2), true);
    }
    sm90::wgmma_commit();
    wait_products<0>();
    // The compiler does not know that the products read and write registers until here.
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      asm volatile("" : "+r"(high[i / 4][i % 4]), "+r"(low[i / 4][i % 4]), "+r"(down[i / 4][i % 4])::"memory");
    }
    sm90::pin(chain);
    __syncwarp();  // one lane speaks for all that have read weights
    release(args, shared, ring.stage);
#pragma unroll
    for (int i = 0; i < n / 2; ++i) sum[i] += chain[i];
  }
}

}  // namespace lamina::cuda::nhwc
