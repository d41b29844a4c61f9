#pragma once

#include "lamina/cuda/sm90_epilogue.cuh"
#include "lamina/cuda/sm90_modes.cuh"

/// The way out for values that the tensor cores must not touch: Inf and NaN (a padding zero of K would turn them into
/// someone else's NaN), and what scaled f16 cannot represent closely enough. Plain fp32 loops for exactly the pixels
/// whose window meets such a value, and for filters that do not survive packing, by the warpgroup that owns the tile.
namespace lamina::cuda::sm90 {

struct ExactTile {
  TileMap map;
  std::int64_t image;
  int first_slot;              // ring slot of the tile's first row
  const std::uint32_t* flags;  // [ring_rows][staging_warps], shared
};

/// Does a window of tile row i reach a unit that failed the range check?
__device__ __forceinline__ bool window_is_bad(const Params& p, const ExactTile& tile, int i) {
  const int position = tile.map.column + i;
  const int down = position / p.pitch, column = position - down * p.pitch;
  for (int row = 0; row <= p.halo_rows; ++row) {
    const int slot = (tile.first_slot + down + row) % p.ring_rows;
    for (int w = 0; w < staging_warps; ++w) {
      const std::uint32_t flag = tile.flags[slot * staging_warps + w];
      if (column <= static_cast<int>(flag & 0xFFFF) && column + p.column_units > static_cast<int>(flag >> 16)) {
        return true;
      }
    }
  }
  return false;
}

/// Thread f of a group of `filters` owns filter f and takes up to `pixels` flagged pixels at a time, so that a weight
/// is read once for all of them.
template <Precision precision, class Out, int filters>
__device__ __noinline__ void exact_tile(const Params& p, const ExactTile& tile, int first_filter, int thread) {
  constexpr int groups = 128 / filters, pixels = 4;
  const int group = thread / filters, f = first_filter + thread % filters;
  if (group >= groups || f >= p.out_channels) return;
  const bool always = p.inexact[f] != 0;
  const int weight_pitch = p.splits * filters;
  const std::int64_t plane = std::int64_t{p.out_height} * p.out_width;
  const float* input = p.input + tile.image * p.channels * p.in_height * p.in_width;
  Out* output = static_cast<Out*>(p.output) + (tile.image * p.out_channels + f) * plane;

  int i = group;
  while (i < tile_pixels) {
    int offset[pixels], y0[pixels], x0[pixels];
    float sum[pixels];
#pragma unroll
    for (int k = 0; k < pixels; ++k) {
      offset[k] = -1;
      for (; i < tile_pixels && offset[k] < 0; i += groups) {
        if (always || window_is_bad(p, tile, i)) offset[k] = pixel_offset(p, tile.map, i);
      }
      y0[k] = offset[k] / p.out_width * p.stride - p.padding_height;
      x0[k] = offset[k] % p.out_width * p.stride - p.padding_width;
      sum[k] = 0.0f;
    }
    const float* w = p.exact_weights + f;
    for (int c = 0; c < p.channels; ++c) {
      for (int kh = 0; kh < p.kernel_height; ++kh) {
#pragma unroll 4
        for (int kw = 0; kw < p.kernel_width; ++kw, w += weight_pitch) {
          const float weight = __ldg(w);
#pragma unroll
          for (int k = 0; k < pixels; ++k) {
            const int y = y0[k] + kh, x = x0[k] + kw;
            const bool inside = offset[k] >= 0 && y >= 0 && y < p.in_height && x >= 0 && x < p.in_width;
            if (inside) {
              sum[k] = fmaf(weight, exact_operand<precision>(__ldg(input + (c * p.in_height + y) * p.in_width + x)),
                            sum[k]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int k = 0; k < pixels; ++k) {
      const float y = sum[k] + p.bias[f];
      if (offset[k] >= 0) output[offset[k]] = to_output<Out>(p.relu ? relu(y) : y);
    }
  }
}

}  // namespace lamina::cuda::sm90
