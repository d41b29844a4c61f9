#pragma once

#include "lamina/cuda/sm90_epilogue.cuh"
#include "lamina/cuda/sm90_modes.cuh"

/// The way out for values that the tensor cores must not touch: Inf and NaN (a padding zero of K would turn them into
/// someone else's NaN), and what scaled f16 cannot represent closely enough. Plain fp32 sums for exactly the pixels
/// whose window meets such a value, and for filters that do not survive packing, by the warpgroup that owns the tile.
namespace lamina::cuda::sm90 {

struct ExactTile {
  TileMap map;
  std::int64_t image;
  int first_slot;      // ring slot of the tile's first row
  const uint4* flags;  // [ring_rows], shared
};

/// What the store buffer holds meanwhile.
struct ExactScratch {
  static constexpr int pixels = 4;  // at a time, so that a weight is read once for all of them
  int list[tile_pixels];            // 2 * tile row + (1 if the window is bad)
  unsigned votes[2];                // which tile rows are listed
  bool bad[tile_pixels];
  float window[max_reduction][pixels];
};
static_assert(sizeof(ExactScratch) <= least_buffer_bytes);

/// Does a window of tile row i reach a unit that failed the range check?
__device__ __forceinline__ bool window_is_bad(const Params& p, const ExactTile& tile, int i) {
  const int position = tile.map.column + i;
  const int down = p.by_pitch.divide(position), column = position - down * p.pitch;
  for (int row = 0; row <= p.halo_rows; ++row) {
    const uint4 flag = tile.flags[(tile.first_slot + down + row) % p.ring_rows];
    for (const std::uint32_t f : {flag.x, flag.y, flag.z, flag.w}) {
      if (column <= static_cast<int>(f & 0xFFFF) && column + p.column_units > static_cast<int>(f >> 16)) return true;
    }
  }
  return false;
}

/// To be called by the whole warpgroup. `first_filter` .. + filters are the block's.
template <Precision precision, class Out, int filters>
__device__ __forceinline__ void exact_tile(const Params& p, const ExactTile& tile, ExactScratch& scratch,
                                           int first_filter, int barrier, int thread) {
  constexpr int groups = 128 / filters, pixels = ExactScratch::pixels / groups;
  const int taps = p.kernel_height * p.kernel_width, reduction = p.channels * taps;
  const float* input = p.input + tile.image * p.channels * p.in_height * p.in_width;
  if (thread < tile_pixels) {
    const bool bad = pixel_offset(p, tile.map, thread) >= 0 && window_is_bad(p, tile, thread);
    const bool listed = bad || (p.any_inexact && pixel_offset(p, tile.map, thread) >= 0);
    const unsigned votes = __ballot_sync(0xFFFFFFFFu, listed);
    if ((thread & 31) == 0) scratch.votes[thread >> 5] = votes;
    scratch.bad[thread] = bad;
  }
  warpgroup_sync(barrier);
  if (thread < tile_pixels) {
    const unsigned mine = scratch.votes[thread >> 5];
    if ((mine >> (thread & 31) & 1) != 0) {
      const int before = __popc(mine & ((1u << (thread & 31)) - 1)) + (thread < 32 ? 0 : __popc(scratch.votes[0]));
      scratch.list[before] = 2 * thread + scratch.bad[thread];
    }
  }
  warpgroup_sync(barrier);
  const int count = __popc(scratch.votes[0]) + __popc(scratch.votes[1]);
  const int group = thread / filters, f = first_filter + thread % filters;
  const bool mine = group < groups && f < p.out_channels;
  const bool inexact = mine && p.inexact[f] != 0;
  const int weight_pitch = p.splits * filters;
  for (int at = 0; at < count; at += ExactScratch::pixels) {
    for (int i = thread; i < max_reduction * ExactScratch::pixels; i += 128) {
      const int k = i / ExactScratch::pixels, which = at + i % ExactScratch::pixels;
      float x = 0.0f;
      if (k < reduction && which < count) {
        const int offset = pixel_offset(p, tile.map, scratch.list[which] >> 1);
        const int c = k / taps, kh = (k - c * taps) / p.kernel_width, kw = k - c * taps - kh * p.kernel_width;
        const int oh = p.by_out_width.divide(offset), ow = offset - oh * p.out_width;
        const int y = oh * p.stride - p.padding_height + kh, column = ow * p.stride - p.padding_width + kw;
        if (y >= 0 && y < p.in_height && column >= 0 && column < p.in_width) {
          x = exact_operand<precision>(__ldg(input + (c * p.in_height + y) * p.in_width + column));
        }
      }
      scratch.window[k][i % ExactScratch::pixels] = x;
    }
    warpgroup_sync(barrier);
    if (mine) {
      float sum[pixels];
#pragma unroll
      for (int k = 0; k < pixels; ++k) sum[k] = 0.0f;
      const float* weight = p.exact_weights + f;
      for (int k = 0; k < reduction; k += exact_unroll, weight += exact_unroll * weight_pitch) {
        float w[exact_unroll];
#pragma unroll
        for (int e = 0; e < exact_unroll; ++e) w[e] = __ldg(weight + e * weight_pitch);
#pragma unroll
        for (int e = 0; e < exact_unroll; ++e) {
#pragma unroll
          for (int i = 0; i < pixels; ++i) sum[i] = fmaf(w[e], scratch.window[k + e][group * pixels + i], sum[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < pixels; ++i) {
        const int which = at + group * pixels + i;
        if (which >= count || !(inexact || (scratch.list[which] & 1) != 0)) continue;
        const std::int64_t plane = (tile.image * p.out_channels + f) * p.out_height * p.out_width;
        static_cast<Out*>(p.output)[plane + pixel_offset(p, tile.map, scratch.list[which] >> 1)] =
            to_output<Out>(p.relu ? relu(sum[i] + p.bias[f]) : sum[i] + p.bias[f]);
      }
    }
    warpgroup_sync(barrier);
  }
}

}  // namespace lamina::cuda::sm90
