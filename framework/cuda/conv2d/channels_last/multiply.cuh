#pragma once

// What a warpgroup makes of the stages that have landed, where operands are multiplied as they are stored.

#include "lamina/cuda/conv2d/channels_last/ring.cuh"

namespace lamina::cuda::channels_last {

/// Pixels of the widest instruction that ptxas accepts with the registers a thread has at the launch.
template <int groups>
inline constexpr int max_columns = groups == 4   ? 128
                                   : groups == 3 ? 192
                                                 : 256;

/// A warpgroup's products: d = its 64 filters * the tile's pixels, over the block's steps.
template <class T, class Stored, int groups, int n, class Sum>
__device__ __forceinline__ void multiply(const Arguments& args, const Shared<Stored, groups, n>& shared, Ring& ring,
                                         int group, int steps, Sum (&d)[n / 2]) {
  using Ring_ = Shared<Stored, groups, n>;
  const std::uint32_t base = ptx::shared_address(shared.ring);
  const auto operands = [&](int stage) -> StageOperands {
    const std::uint32_t tile = base + static_cast<std::uint32_t>(stage * Ring_::stage_bytes);
    return {ptx::rows_descriptor(tile + static_cast<std::uint32_t>(Ring_::weight_offset + group * block_bytes)),
            ptx::rows_descriptor(tile)};
  };
  const auto give_back = [&](int stage) { release(args, shared, stage); };
  give_back(multiply_stages<T, max_columns<groups>>(ring, shared.full, steps, d, operands, give_back));
}

}  // namespace lamina::cuda::channels_last
