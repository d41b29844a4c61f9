#pragma once

#include "lamina/cuda/sm90_exact.cuh"
#include "lamina/cuda/sm90_multiply.cuh"
#include "lamina/cuda/sm90_pixels.cuh"
#include "lamina/cuda/sm90_planes.cuh"
#include "lamina/cuda/sm90_stage.cuh"
#include "lamina/cuda/sm90_team.cuh"
#include "lamina/cuda/sm90_walk.cuh"

/// The three loops that run at the same time in a block: staging, computing, storing. Each walks the block's tiles by
/// itself; mbarriers in SharedControl hand over ring rows and store buffers.
namespace lamina::cuda::sm90 {

template <Precision precision, bool wide>
__device__ __forceinline__ void stage_rows(const Params& p, SharedControl& control, std::uint32_t ring,
                                           unsigned char* raw_slots_start, int group, int tile, int last) {
  constexpr int groups = Team<precision>::staging, slots = Team<precision>::raw_slots;  // groups take rows in turn
  const int thread = threadIdx.x & 127, warp = thread >> 5, lane = thread & 31;
  RawRows raw{p, raw_slots_start, control.raw_landed + group * slots, thread};
  raw.slots = raw.slot(group * slots);
  Stager<Mode<precision>, wide> stager(p, ring, thread);
  RowWalk row(p, tile, last), coming(p, tile, last);
  RingCursor to{p.ring_rows}, from{slots};
  row.advance(p, group), coming.advance(p, group), to.advance(group);
  if (!row.done()) stager.prepare_strip(row.segment.first_column, raw.first_column(row));
  wait_for_previous_kernel();
  for (int i = 0; i < slots && !coming.done(); ++i, coming.advance(p, groups)) raw.fetch(coming, i);
  for (; !row.done(); row.advance(p, groups), to.advance(groups), from.advance()) {
    barrier_wait(&raw.landed[from.slot], from.parity);
    barrier_wait(&control.row_free[to.slot], to.parity ^ 1);
    const BadUnits bad = stager.convert_row(row, raw.slot(from.slot), raw.first_column(row), to.slot);
    const std::uint32_t flag = bad.word();
    fence_async_proxy();
    if (lane == 0) reinterpret_cast<std::uint32_t*>(&control.bad_units[to.slot])[warp] = flag;
    barrier_arrive(&control.row_full[to.slot]);
    if (!coming.done()) {
      warpgroup_sync(staging_barrier + group);  // everyone has read the raw rows
      raw.fetch(coming, from.slot);
      coming.advance(p, groups);
    }
  }
}

template <Precision precision, class Out, int filters>
__device__ __forceinline__ void compute_tiles(const Params& p, SharedControl& control, std::uint32_t weights,
                                              std::uint32_t ring, Out* buffer, ExactScratch& scratch, int group,
                                              int split, int tile, int last) {
  using M = Mode<precision>;
  constexpr int computing_groups = Team<precision>::computing;
  const int thread = threadIdx.x & 127, lane = thread & 31;
  const int first_filter = split * filters;
  barrier_wait(&control.weights_landed, 0);

  RingCursor ready{p.ring_rows}, released{p.ring_rows};  // the first row not known staged, not yet let go
  const auto wait_ready = [&](int end) {
    for (; ready.number < end; ready.advance()) barrier_wait(&control.row_full[ready.slot], ready.parity);
  };
  // In order and never before the row was staged: each warp arrives exactly once per use of a slot. One row at a time:
  // to wait for later rows while holding earlier ones could starve a short ring.
  const auto release = [&](int end) {
    for (; released.number < end; released.advance()) {
      wait_ready(released.number + 1);
      barrier_arrive(&control.row_free[released.slot]);
    }
  };
  const auto flags_of = [&](int i) {
    const int slot = released.slot + i;
    return control.bad_units[slot < p.ring_rows ? slot : slot - p.ring_rows];
  };

  int number = 0, turn = group;  // of the segment's first row; tiles until this warpgroup's next one
  int parity = 0;                // of this tile's use of the buffer
  while (tile < last) {
    const Segment segment(p, tile, last);
    int t = segment.begin + turn;
    for (; t < segment.end; t += computing_groups, parity ^= 1) {
      const int row = p.by_pitch.divide(t * tile_pixels), column = t * tile_pixels - row * p.pitch;
      const int first = number + row - segment.first_row;
      const int rows = Segment::last_row(p, t) - row + 1;
      release(first);
      wait_ready(first + rows);
      bool bad = p.any_inexact;
      const auto check_flags = [&] {
        for (int i = lane; i < rows; i += 32) bad |= BadUnits::any(flags_of(i));
        bad = __any_sync(0xFFFFFFFFu, bad);
      };
      float y[filters / 2];
#pragma unroll
      for (int j = 0; j < filters / 8; ++j) {
        // Unscaled sums start at the bias; scaled ones meet it after scaling.
        const float2 bias =
            M::scaled ? make_float2(0.0f, 0.0f) : control.bias[column_filter(8 * j + 2 * (lane & 3)) / 2];
        y[4 * j] = y[4 * j + 2] = bias.x, y[4 * j + 1] = y[4 * j + 3] = bias.y;
      }
      multiply<precision, filters>(p, ring, weights, released.slot, column, y, check_flags);

      const int first_slot = released.slot, next = t + computing_groups;
      const int done = next < segment.end ? number + p.by_pitch.divide(next * tile_pixels) - segment.first_row
                                          : number + segment.rows;
      if (!bad) release(done);

      if constexpr (M::scaled) {
#pragma unroll
        for (int j = 0; j < filters / 8; ++j) {
          const int pair = column_filter(8 * j + 2 * (lane & 3)) / 2;
          const float2 bias = control.bias[pair], scale = control.scale[pair];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            y[4 * j + i] = fmaf(y[4 * j + i], i % 2 == 0 ? scale.x : scale.y, i % 2 == 0 ? bias.x : bias.y);
          }
        }
      }
      if (p.relu) {
#pragma unroll
        for (int i = 0; i < filters / 2; ++i) y[i] = relu(y[i]);
      }
      barrier_wait(&control.buffer_free[group], parity);
      if (p.nhwc) {
        Pixels<Out, filters>{p, buffer, first_filter, thread}.put(control.places[group], y);
      } else {
        Planes<Out, filters>{p, buffer, first_filter, thread}.put(control.places[group], y);
      }
      if (bad) {
        const TileMap map(p, tile + t - segment.begin);
        exact_tile<precision, Out, filters>(p, {map, first_slot, control.bad_units}, control.places[group], buffer,
                                            scratch, first_filter, 1 + group, thread);
      }
      barrier_arrive(&control.buffer_full[group]);
      if (bad) release(done);
    }
    turn = t - segment.end;
    number += segment.rows;
    release(number);
    tile += segment.end - segment.begin;
  }
}

/// Storing warpgroup `group` of Team::storing takes every tile of the computing groups congruent to it.
template <Precision precision, class Out, int filters, template <class, int> class Store>
__device__ __forceinline__ void store_tiles(const Params& p, SharedControl& control, unsigned char* buffers, int group,
                                            int split, int tile, int last) {
  constexpr int storing = Team<precision>::storing, computing = Team<precision>::computing;
  const int thread = threadIdx.x & 127;
  const auto store_of = [&](int computing_group) {
    Out* buffer = reinterpret_cast<Out*>(buffers + computing_group * buffer_bytes(filters, sizeof(Out)));
    return Store<Out, filters>{p, buffer, split * filters, thread};
  };
  const auto hand_over = [&](int computing_group, int next) {
    if (next < last) store_of(computing_group).announce(TileMap(p, next), control.places[computing_group]);
    barrier_arrive(&control.buffer_free[computing_group]);
  };
  for (int g = group; g < computing; g += storing) hand_over(g, tile + g);
  for (int i = group; tile + i < last; i += storing) {
    const int g = i % computing, parity = i / computing & 1;
    const Store<Out, filters> store = store_of(g);
    const TileMap map(p, tile + i);
    const typename Store<Out, filters>::Places places = store.prepare(map);
    barrier_wait(&control.buffer_full[g], parity);
    if (i == group) wait_for_previous_kernel();  // it may still read what this one writes
    store.drain(map, places);
    hand_over(g, tile + i + computing);
  }
}

}  // namespace lamina::cuda::sm90
