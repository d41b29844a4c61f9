#pragma once

// What a warpgroup makes of the stages that have landed, where operands are multiplied as they are stored.

#include "lamina/cuda/conv2d/channels_last/ring.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"

namespace lamina::cuda::channels_last {

/// Pixels of the widest instruction that ptxas accepts with the registers a thread has at the launch.
template <int groups>
inline constexpr int max_columns = groups == 4   ? 128
                                   : groups == 3 ? 192
                                                 : 256;

/// d = a b + (accumulate ? d : 0) over 32 bytes of K, in one instruction or two.
template <class T, int n, int max>
__device__ __forceinline__ void issue(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, bool accumulate) {
  if constexpr (n <= max) {
    ptx::wgmma<T>(d, a, b, accumulate);
  } else {
    constexpr int first = (n / 2 + 15) / 16 * 16;
    ptx::wgmma<T>(reinterpret_cast<float(&)[first / 2]>(d[0]), a, b, accumulate);
    ptx::wgmma<T>(reinterpret_cast<float(&)[(n - first) / 2]>(d[first / 2]), a,
                  b + static_cast<unsigned>(first * step_bytes / 16), accumulate);
  }
}

/// A warpgroup's products: d = its 64 filters * the tile's pixels, over the block's steps.
template <class T, int groups, int n>
__device__ __forceinline__ void multiply(const Arguments& args, const Shared<T, groups, n>& shared, Ring& ring,
                                         int group, int steps, float (&d)[n / 2]) {
  using Ring_ = Shared<T, groups, n>;
  const std::uint32_t base = ptx::shared_address(shared.ring);
  int previous = 0;
  for (int step = 0; step < steps; ++step, ring.advance()) {
    ptx::barrier_wait(shared.full + ring.stage, ring.parity);
    const std::uint32_t tile = base + static_cast<std::uint32_t>(ring.stage * Ring_::stage_bytes);
    const std::uint64_t a =
        ptx::rows_descriptor(tile + static_cast<std::uint32_t>(Ring_::weight_offset + group * block_bytes));
    const std::uint64_t b = ptx::rows_descriptor(tile);
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // 32 bytes of K each; addresses in a descriptor count 16
      issue<T, n, max_columns<groups>>(d, a + static_cast<unsigned>(2 * i), b + static_cast<unsigned>(2 * i),
                                       step > 0 || i > 0);
    }
    ptx::wgmma_commit();
    if (step > 0) {
      ptx::wgmma_wait<1>();
      release(args, shared, previous);
    }
    previous = ring.stage;
  }
  ptx::wgmma_wait<0>();
  ptx::pin(d);
  release(args, shared, previous);
}

}  // namespace lamina::cuda::channels_last
