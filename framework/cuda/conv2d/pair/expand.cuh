#pragma once

// The first of the two: pixels [M, K] x filters of a slice [K, N], both from shared memory, by mma.sync, into the map
// between the two.

#include "lamina/cuda/conv2d/pair/arguments.h"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/shared.cuh"

namespace lamina::cuda::pair {

/// The pixels of the image that a block's windows see: a rectangle.
struct Rectangle {
  int top, left, height, width;
  __device__ __forceinline__ int pixels() const { return height * width; }
};

/// Finishes a warp's sums of m times 16 pixels from `first` on, and of up to max_fragments times 8 filters, and stores
/// them as activations at `between`, where the rectangle's first pixel and the first of these filters belong.
template <class T, int m>
__device__ __forceinline__ void store_between(const Arguments& args, const Rectangle& from, int first, int fragments,
                                              unsigned char* between, float (&sum)[m][max_fragments][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float per_width = __frcp_rn(static_cast<float>(from.width));
  const auto finish = [&](auto kind) {
#pragma unroll
    for (int i = 0; i < m; ++i) {
#pragma unroll
      for (int j = 0; j < max_fragments; ++j) {
#pragma unroll
        for (float& value : sum[i][j]) value = finished<kind.value, T>(args.between, value);
      }
    }
  };
  using Kind = Finish::Kind;
  if (args.between.kind == Kind::silu) {
    finish(std::integral_constant<Kind, Kind::silu>());
  } else if (args.between.kind == Kind::hard_swish) {
    finish(std::integral_constant<Kind, Kind::hard_swish>());
  } else {
    finish(std::integral_constant<Kind, Kind::clamp>());
  }
#pragma unroll
  for (int i = 0; i < 2 * m; ++i) {
    const int pixel = first + i * 8 + lane / 4;
    if (pixel >= from.pixels()) continue;
    // Exact: a quotient is half a pixel away from the next row's, and pixels are fewer than 2^20.
    const int y = static_cast<int>((static_cast<float>(pixel) + 0.5f) * per_width), x = pixel - y * from.width;
    unsigned char* const to = between + (y * args.halo_width + x) * args.between_bytes + lane % 4 * 4;
#pragma unroll
    for (int j = 0; j < max_fragments; ++j) {
      if (j >= fragments) continue;
      const float* pair = &sum[i / 2][j][i % 2 * 2];
      *reinterpret_cast<Pack<T, 2>*>(to + j * 16) = {from_f32<T>(pair[0]), from_f32<T>(pair[1])};
    }
  }
}

/// `pixels` and `parameters`: in shared memory. `between`: where the rectangle's first pixel belongs.
template <class T, int m>
__device__ __forceinline__ void expand(const Arguments& args, const Rectangle& from, std::uint32_t pixels,
                                       const unsigned char* parameters, int bias_offset, unsigned char* between) {
  constexpr int warps = threads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int all = args.slice / 8, chunks = (all + max_fragments - 1) / max_fragments;
  const int groups = (from.pixels() + 16 * m - 1) / (16 * m);
  if (groups == 0) return;
  for (int group = warp, chunk = 0;; group += warps) {
    for (; group >= groups; group -= groups) ++chunk;
    if (chunk >= chunks) break;
    const int first = group * 16 * m, fragment = chunk * max_fragments;
    const int fragments = min(all - fragment, max_fragments);
    std::uint32_t source[m];
#pragma unroll
    for (int i = 0; i < m; ++i) {
      const int pixel = min(first + i * 16 + lane % 16, from.pixels() - 1);
      source[i] = pixels + static_cast<std::uint32_t>(pixel * args.pixel_bytes + lane / 16 * unit_bytes);
    }
    float sum[m][max_fragments][4] = {};
    const unsigned char* weights = parameters + fragment * fragment_bytes + lane * 8;
#pragma unroll 2
    for (int step = 0; step < args.steps; ++step) {
      std::uint32_t a[m][4];
#pragma unroll
      for (int i = 0; i < m; ++i) {
        ptx::load_matrices(a[i], source[i]);
        source[i] += 2 * unit_bytes;
      }
#pragma unroll
      for (int j = 0; j < max_fragments; ++j) {
        if (j >= fragments) continue;
        const uint2 word = *reinterpret_cast<const uint2*>(weights + j * fragment_bytes);
        const std::uint32_t b[2] = {word.x, word.y};
#pragma unroll
        for (int i = 0; i < m; ++i) ptx::mma<T>(sum[i][j], a[i], b, sum[i][j]);
      }
      weights += all * fragment_bytes;
    }
#pragma unroll
    for (int j = 0; j < max_fragments; ++j) {
      if (j >= fragments) continue;
      const auto* biases = reinterpret_cast<const float*>(parameters + bias_offset) + (fragment + j) * 8 + lane % 4 * 2;
      const float2 bias = *reinterpret_cast<const float2*>(biases);
#pragma unroll
      for (int i = 0; i < m; ++i) {
        sum[i][j][0] += bias.x, sum[i][j][1] += bias.y;
        sum[i][j][2] += bias.x, sum[i][j][3] += bias.y;
      }
    }
    store_between<T, m>(args, from, first, fragments, between + fragment * 16, sum);
  }
}

}  // namespace lamina::cuda::pair
