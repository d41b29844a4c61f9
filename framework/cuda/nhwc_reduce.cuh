#pragma once

// A tile whose K is split over the blocks of a cluster: each leaves its sums in its own shared memory, and each adds up
// a share of the pixels over all blocks, in their order, so that the bits are the same every time.

#include "lamina/cuda/nhwc_epilogue.cuh"

namespace lamina::cuda::nhwc {

/// Floats from one pixel's sums to the next: four more than there are filters, so that the eight filters and four
/// pixels of a store are 32 different banks.
template <int groups>
inline constexpr int partial_pitch = groups* block_filters + 4;

template <int groups, int n>
__device__ __forceinline__ void leave_partial(float* partial,  // [n, partial_pitch], shared
                                              int group, const float (&d)[n / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  float* corner = partial + lane % 4 * 2 * partial_pitch<groups> + group * block_filters + warp * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < n / 2; ++i) {
    corner[(i / 4 * 8 + i % 2) * partial_pitch<groups> + i / 2 % 2 * 8] = d[i];
  }
}

/// Four neighbouring channels of one pixel; channels are a multiple of four.
template <class T>
__device__ __forceinline__ void write4(const Arguments& args, std::size_t index, const float (&y)[4]) {
  if (args.output_type == DType::f32) {
    *reinterpret_cast<float4*>(static_cast<float*>(args.output) + index) = {y[0], y[1], y[2], y[3]};
  } else if constexpr (!in_f32<T>) {
    *reinterpret_cast<uint2*>(static_cast<T*>(args.output) + index) = {pack(y[0], y[1], T{}), pack(y[2], y[3], T{})};
  }
}

/// Adds and finishes this block's share. All of the cluster's blocks have left their sums.
template <class T, int groups, int n>
__device__ __forceinline__ void reduce(const Arguments& args, const float* partial, int rank, int first_filter,
                                       int first_pixel, int thread) {
  constexpr int quads = groups * block_filters / 4;
  const int share = (n + args.splits - 1) / args.splits;
  const int first = rank * share, last = min(first + share, n);
  const std::uint32_t base = shared_address(partial);
  for (int item = first * quads + thread; item < last * quads; item += groups * 128) {
    const int pixel = first_pixel + item / quads, filter = first_filter + item % quads * 4;
    if (pixel >= args.pixels || filter >= args.geometry.out_channels) continue;
    const std::uint32_t address =
        base + static_cast<std::uint32_t>((item / quads * partial_pitch<groups> + item % quads * 4) * 4);
    float4 part[most_splits];
#pragma unroll
    for (int split = 0; split < most_splits; ++split) {
      if (split < args.splits) part[split] = load_cluster(in_block(address, static_cast<std::uint32_t>(split)));
    }
    const float4 bias = __ldg(reinterpret_cast<const float4*>(args.bias + filter));
    float y[4] = {part[0].x, part[0].y, part[0].z, part[0].w};
#pragma unroll
    for (int split = 1; split < most_splits; ++split) {
      if (split < args.splits) {
        y[0] += part[split].x, y[1] += part[split].y, y[2] += part[split].z, y[3] += part[split].w;
      }
    }
    if constexpr (Element<T>::repaired) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        float sum = i == 0 ? y[0] : i == 1 ? y[1] : i == 2 ? y[2] : y[3];
        FilterRange range;
        if constexpr (split<T>) range = args.ranges[filter + i];
        sum *= range.scale;
        const float again = rare(sum, range) ? exact_sum<T>(args, filter + i, pixel) * exact_scale(range) : sum;
        y[0] = i == 0 ? again : y[0], y[1] = i == 1 ? again : y[1];
        y[2] = i == 2 ? again : y[2], y[3] = i == 3 ? again : y[3];
      }
    }
    y[0] = activate(args, y[0] + bias.x), y[1] = activate(args, y[1] + bias.y);
    y[2] = activate(args, y[2] + bias.z), y[3] = activate(args, y[3] + bias.w);
    write4<T>(args,
              static_cast<std::size_t>(pixel) * static_cast<unsigned>(args.geometry.out_channels) +
                  static_cast<unsigned>(filter),
              y);
  }
}

}  // namespace lamina::cuda::nhwc
