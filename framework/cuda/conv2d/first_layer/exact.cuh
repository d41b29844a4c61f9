#pragma once

#include <type_traits>

#include "lamina/cuda/conv2d/first_layer/modes.cuh"
#include "lamina/cuda/conv2d/first_layer/pixels.cuh"
#include "lamina/cuda/conv2d/first_layer/planes.cuh"
#include "lamina/cuda/conv2d/first_layer/stage.cuh"

/// The way out for values that the tensor cores must not touch: Inf and NaN (a padding zero of K would turn them into
/// someone else's NaN), and what scaled f16 cannot represent closely enough. Plain fp32 sums for exactly the pixels
/// whose window meets such a value, and for filters that do not survive packing, by the warpgroup that owns the tile:
/// they replace what the tensor cores made of them in the store buffer, before anyone else sees it.
///
/// A few values that are merely too small do no harm among others that are not: their absolute error is 2^-11 (tf32) or
/// 2^-20 (fp32) of the smallest value of the fast path, so where no filter has more than half of its sum |w| on values
/// below 64 times that one, what they add stays under a hundredth of the contract's bound. `tolerated` counts how many
/// there may be; on ordinary data it lets every window pass that is not made of darkness.
namespace lamina::cuda::first_layer {

struct ExactTile {
  TileMap map;
  std::uint32_t ring;  // shared address, in units
  int first_slot;      // ring slot of the tile's first row
  const uint4* flags;  // [ring_rows], shared
};

/// What it works with in shared memory; the windows follow, [reduction, padded to exact_unroll].
struct alignas(16) ExactScratch {
  /// A function that is not inlined reaches kernel parameters through memory, a cache miss each. (Inlining it would
  /// cost the products registers.)
  Params params;
  int list[tile_pixels];             // the tile rows to recompute
  std::uint32_t state[tile_pixels];  // what is wrong with their windows
  unsigned suspects[2], listed[2];   // tile rows, a bit each

  using Window = float[exact_pixels];
  __device__ __forceinline__ Window* window() { return reinterpret_cast<Window*>(this + 1); }
};
static_assert(sizeof(ExactScratch) <= exact_header_bytes);

/// The whole warpgroup copies the parameters; to be followed by a barrier.
__device__ __forceinline__ void bring_params(const Params& p, ExactScratch& scratch, int thread) {
  static_assert(sizeof(Params) % 4 == 0 && std::is_trivially_copyable_v<Params>);
  const auto* from = reinterpret_cast<const std::uint32_t*>(&p);
  auto* to = reinterpret_cast<std::uint32_t*>(&scratch.params);
  for (int i = thread; i < static_cast<int>(sizeof(Params) / 4); i += 128) to[i] = from[i];
}

/// Does the window of tile row i, as the tensor cores read it, reach a unit that failed the range check?
/// BadUnits::large tells that it may reach one with a value that is too large, or NaN.
__device__ __forceinline__ std::uint32_t window_state(const Params& p, const ExactTile& tile, int i) {
  const int position = tile.map.column + i;
  const int down = p.by_pitch.divide(position), column = position - down * p.pitch;
  std::uint32_t state = 0;
  for (int row = 0; row <= p.halo_rows; ++row) {
    const uint4 words = tile.flags[(tile.first_slot + down + row) % p.ring_rows];
    for (const std::uint32_t word : {words.x, words.y, words.z, words.w}) {
      const int low = static_cast<int>(word >> 16), high = static_cast<int>(word & (BadUnits::large - 1));
      if (column <= high && column + p.column_units > low) state |= 1 | (word & BadUnits::large);
    }
  }
  return state;
}

/// How many of the values that tile row i's window takes from the ring are too small, zeros among them, to hide the
/// error of a value that is smaller still. By a whole warp. (Slots that only pad K may be counted; that errs on the
/// safe side.)
template <class M>
__device__ __forceinline__ int small_values(const Params& p, const ExactTile& tile, int i) {
  int small = 0;
  for (int g = 0; g < p.groups; ++g) {
    const int slot = tile.first_slot + p.group[g].shift;
    const std::uint32_t row = tile.ring + (slot < p.ring_rows ? slot : slot - p.ring_rows) * p.pitch + tile.map.column;
    for (int half = 2 * p.group[g].begin + (threadIdx.x & 31); half < 2 * p.group[g].end; half += 32) {
      const std::uint32_t entry = p.step[half / 2];
      const uint4 unit =
          ptx::load_shared<uint4>((row + i + (entry & 0xFFFF) + (half % 2 == 0 ? 0 : entry >> 16)) * unit_bytes);
      const std::uint32_t word[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        small += p.tap[e].row >= 0 && (word[e / 2] >> 16 * (e % 2) & 0x7FFF) < M::small_operand;
      }
    }
  }
  return __reduce_add_sync(0xFFFFFFFFu, small);
}

/// Lists the tile rows to recompute and what is wrong with them, in `scratch`; returns how many. By the whole
/// warpgroup.
template <Precision precision>
__device__ __forceinline__ int list_rows(const Params& p, const ExactTile& tile, ExactScratch& scratch, int barrier,
                                         int thread) {
  const bool pixel = thread < tile_pixels && pixel_offset(p, tile.map, thread) >= 0;
  if (thread < tile_pixels) {
    scratch.state[thread] = pixel ? window_state(p, tile, thread) : 0;
    const unsigned suspects = __ballot_sync(0xFFFFFFFFu, scratch.state[thread] != 0);
    if ((thread & 31) == 0) scratch.suspects[thread >> 5] = suspects;
  }
  ptx::sync_warpgroup(barrier);
  if constexpr (Mode<precision>::smallest != 0) {
    std::uint64_t suspects = scratch.suspects[0] | std::uint64_t{scratch.suspects[1]} << 32;
    for (int number = 0; suspects != 0; suspects &= suspects - 1, ++number) {
      if (number % 4 != thread >> 5) continue;
      const int i = __ffsll(static_cast<long long>(suspects)) - 1;
      if ((scratch.state[i] & BadUnits::large) != 0) continue;
      const int small = small_values<Mode<precision>>(p, tile, i);
      if (small <= p.tolerated && (thread & 31) == 0) scratch.state[i] = 0;
    }
    ptx::sync_warpgroup(barrier);
  }
  const bool listed = pixel && (scratch.state[thread] != 0 || p.any_inexact);
  if (thread < tile_pixels) {
    const unsigned all = __ballot_sync(0xFFFFFFFFu, listed);
    if ((thread & 31) == 0) scratch.listed[thread >> 5] = all;
  }
  ptx::sync_warpgroup(barrier);
  if (listed) {
    const int before = __popc(scratch.listed[thread >> 5] & ((1u << (thread & 31)) - 1));
    scratch.list[before + (thread < 32 ? 0 : __popc(scratch.listed[0]))] = thread;
  }
  ptx::sync_warpgroup(barrier);
  return __popc(scratch.listed[0]) + __popc(scratch.listed[1]);
}

/// An element of the input as the exact path multiplies it.
template <Precision precision>
__device__ __forceinline__ float input_operand(const Params& p, std::int64_t element) {
  if constexpr (Mode<precision>::narrow) {
    using Operand = typename Mode<precision>::Operand;
    if (p.narrow) return Pair<Operand>::unpack(__ldg(static_cast<const unsigned short*>(p.input) + element)).x;
  }
  return exact_operand<precision>(__ldg(static_cast<const float*>(p.input) + element));
}

inline constexpr int exact_loads = 6;  ///< of a window's values in flight: half of 11x11x3

/// To be called by the whole warpgroup after bring_params. `first_filter` .. + filters are the block's.
template <Precision precision, class Out, int filters>
__device__ __noinline__ void exact_tile(const ExactTile& tile, const PixelPlaces& places, Out* buffer,
                                        ExactScratch& scratch, int first_filter, int barrier, int thread) {
  const Params& p = scratch.params;
  ptx::sync_warpgroup(barrier);
  constexpr int groups = 128 / filters, pixels = exact_pixels / groups;
  const int taps = p.kernel_height * p.kernel_width, reduction = p.channels * taps;
  const std::int64_t image = tile.map.image * p.channels * p.in_height * p.in_width;
  const int count = list_rows<precision>(p, tile, scratch, barrier, thread);
  const int group = thread / filters, f = first_filter + thread % filters;
  const bool mine = group < groups && f < p.out_channels;
  const bool inexact = mine && p.inexact[f] != 0;
  const int weight_pitch = p.splits * filters;
  const int padded = (reduction + exact_unroll - 1) / exact_unroll * exact_unroll;
  for (int at = 0; at < count; at += exact_pixels) {
    // Warp w looks at window w and brings it in.
    const int which = at + (thread >> 5);
    const int offset = which < count ? pixel_offset(p, tile.map, scratch.list[which]) : 0;
    const int oh = p.by_out_width.divide(offset), ow = offset - oh * p.out_width;
    const int top = oh * p.stride - p.padding_height, left = ow * p.stride - p.padding_width;
    for (int from = thread & 31; from < padded; from += 32 * exact_loads) {
      float value[exact_loads];
#pragma unroll
      for (int i = 0; i < exact_loads; ++i) {
        const int k = from + 32 * i, c = p.by_taps.divide(k), tap = k - c * taps, kh = p.by_kernel_width.divide(tap);
        const int y = top + kh, x = left + tap - kh * p.kernel_width;
        const bool inside = k < reduction && which < count && y >= 0 && y < p.in_height && x >= 0 && x < p.in_width;
        value[i] = 0.0f;
        if (inside) {
          value[i] = input_operand<precision>(p, image + c * p.in_channel + y * p.in_row + x * p.in_column);
        }
      }
#pragma unroll
      for (int i = 0; i < exact_loads; ++i) {
        const int k = from + 32 * i;
        if (k < padded) scratch.window()[k][thread >> 5] = value[i];
      }
    }
    ptx::sync_warpgroup(barrier);
    bool wanted[pixels], any = false;
#pragma unroll
    for (int i = 0; i < pixels; ++i) {
      const int mine_at = at + group * pixels + i;
      const bool bad = mine_at < count && scratch.state[scratch.list[mine_at]] != 0;
      wanted[i] = mine && mine_at < count && (inexact || bad);
      any |= wanted[i];
    }
    if (any) {
      float sum[pixels];
#pragma unroll
      for (int i = 0; i < pixels; ++i) sum[i] = 0.0f;
      const float* weight = p.exact_weights + f;
      for (int k = 0; k < padded; k += exact_unroll, weight += exact_unroll * weight_pitch) {
        float w[exact_unroll];
#pragma unroll
        for (int e = 0; e < exact_unroll; ++e) w[e] = __ldg(weight + e * weight_pitch);
#pragma unroll
        for (int e = 0; e < exact_unroll; ++e) {
#pragma unroll
          for (int i = 0; i < pixels; ++i) sum[i] = fmaf(w[e], scratch.window()[k + e][group * pixels + i], sum[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < pixels; ++i) {
        if (!wanted[i]) continue;
        const int row = scratch.list[at + group * pixels + i];
        float y[1] = {sum[i] + p.bias[f]};
        finish<Out>(p, y);
        const Out out = from_f32<Out>(y[0]);
        if (p.nhwc) {
          Pixels<Out, filters>{p, buffer, first_filter, thread}.at(places, row, f - first_filter) = out;
        } else {
          Planes<Out, filters>{p, buffer, first_filter, thread}.at(places, row, f - first_filter) = out;
        }
      }
    }
    ptx::sync_warpgroup(barrier);
  }
  ptx::fence_async_proxy();
}

}  // namespace lamina::cuda::first_layer
