#pragma once

#include "lamina/cuda/conv2d/first_layer/exact.cuh"
#include "lamina/cuda/conv2d/first_layer/multiply.cuh"
#include "lamina/cuda/conv2d/first_layer/pixels.cuh"
#include "lamina/cuda/conv2d/first_layer/planes.cuh"
#include "lamina/cuda/conv2d/first_layer/pool.cuh"
#include "lamina/cuda/conv2d/first_layer/stage.cuh"
#include "lamina/cuda/conv2d/first_layer/team.cuh"
#include "lamina/cuda/conv2d/first_layer/walk.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

/// The three loops that run at the same time in a block: staging, computing, storing. Each walks the block's tiles by
/// itself; mbarriers in SharedControl hand over ring rows and store buffers.
namespace lamina::cuda::first_layer {

template <Precision precision, bool wide, class In>
__device__ __forceinline__ void stage_rows(const Params& p, SharedControl& control, std::uint32_t ring,
                                           unsigned char* raw_slots_start, int group, int first, int last) {
  constexpr int groups = Team<precision>::staging, slots = Team<precision>::raw_slots;  // groups take rows in turn
  const int thread = threadIdx.x & 127, warp = thread >> 5, lane = thread & 31;
  RawRows raw{p, raw_slots_start, control.raw_landed + group * slots, thread};
  raw.slots = raw.slot(group * slots);
  Stager<Mode<precision>, wide, In> stager(p, ring, thread);
  RowWalk row(p, first, last), coming(p, first, last);
  RingCursor to{p.ring_rows}, from{slots};
  row.advance(p, group), coming.advance(p, group), to.advance(group);
  // A network's first kernel has nobody to wait for: its rows come while the pieces are worked out.
  wait_for_predecessor();
  for (int i = 0; i < slots && !coming.done(); ++i, coming.advance(p, groups)) raw.fetch(coming, i);
  if (!row.done()) stager.prepare_strip(row.segment.first_column, raw.first_column(row));
  for (; !row.done(); row.advance(p, groups), to.advance(groups), from.advance()) {
    ptx::barrier_wait(&raw.landed[from.slot], from.parity);
    ptx::barrier_wait(&control.row_free[to.slot], to.parity ^ 1);
    const BadUnits bad = stager.convert_row(row, raw.slot(from.slot), raw.first_column(row), to.slot);
    const std::uint32_t flag = bad.word();
    ptx::fence_async_proxy();
    if (lane == 0) reinterpret_cast<std::uint32_t*>(&control.bad_units[to.slot])[warp] = flag;
    ptx::barrier_arrive(&control.row_full[to.slot]);
    if (!coming.done()) {
      ptx::sync_warpgroup(staging_barrier + group);  // everyone has read the raw rows
      raw.fetch(coming, from.slot);
      coming.advance(p, groups);
    }
  }
}

/// Unscaled sums start at the bias; scaled ones meet it after scaling.
template <Precision precision, int filters>
__device__ __forceinline__ void begin_sums(const SharedControl& control, int lane, float (&y)[filters / 2]) {
#pragma unroll
  for (int j = 0; j < filters / 8; ++j) {
    const float2 bias =
        Mode<precision>::scaled ? make_float2(0.0f, 0.0f) : control.bias[column_filter(8 * j + 2 * (lane & 3)) / 2];
    y[4 * j] = y[4 * j + 2] = bias.x, y[4 * j + 1] = y[4 * j + 3] = bias.y;
  }
}

template <Precision precision, class Out, int filters>
__device__ __forceinline__ void finish_sums(const Params& p, const SharedControl& control, int lane,
                                            float (&y)[filters / 2]) {
  if constexpr (Mode<precision>::scaled) {
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
  finish<Out>(p, y);
}

template <Precision precision, class Out, int filters>
__device__ __forceinline__ void compute_tiles(const Params& p, SharedControl& control, std::uint32_t weights,
                                              std::uint32_t ring, unsigned char* buffers, ExactScratch& scratch,
                                              int group, int split, int at, int last) {
  constexpr int computing_groups = Team<precision>::computing;
  const int thread = threadIdx.x & 127, lane = thread & 31;
  const int first_filter = split * filters;
  ptx::barrier_wait(&control.weights_landed, 0);

  RingCursor ready{p.ring_rows}, released{p.ring_rows};  // the first row not known staged, not yet let go
  const auto wait_ready = [&](int end) {
    for (; ready.number < end; ready.advance()) ptx::barrier_wait(&control.row_full[ready.slot], ready.parity);
  };
  // In order and never before the row was staged: each warp arrives exactly once per use of a slot. One row at a time:
  // to wait for later rows while holding earlier ones could starve a short ring.
  const auto release = [&](int end) {
    for (; released.number < end; released.advance()) {
      wait_ready(released.number + 1);
      ptx::barrier_arrive(&control.row_free[released.slot]);
    }
  };
  const auto flags_of = [&](int i) {
    const int slot = released.slot + i;
    return control.bad_units[slot < p.ring_rows ? slot : slot - p.ring_rows];
  };

  int number = 0, turn = group;  // of the segment's first row; tiles until this warpgroup's next one
  const int in_turn = p.buffers / computing_groups - 1;  // buffers but one, a power of two
  int count = 0;                                         // of this warpgroup's tiles
  while (at < last) {
    const Segment segment(p, at, last);
    int t = segment.begin + turn;
    for (; t < segment.end; t += computing_groups, ++count) {
      const int down = p.by_pitch.divide(t * tile_pixels), column = t * tile_pixels - down * p.pitch;
      const int row = segment.base_row + down, first = number + row - segment.first_row;
      const int rows = segment.last_row(p, t) - row + 1;
      release(first);
      wait_ready(first + rows);
      bool bad = p.any_inexact;
      const auto check_flags = [&] {
        for (int i = lane; i < rows; i += 32) bad |= BadUnits::any(flags_of(i));
        bad = __any_sync(0xFFFFFFFFu, bad);
      };
      float y[filters / 2];
      begin_sums<precision, filters>(control, lane, y);
      multiply<precision, filters>(p, ring, weights, released.slot, column, y, check_flags);

      const int first_slot = released.slot, next = t + computing_groups;
      const int done = next < segment.end
                           ? number + segment.base_row + p.by_pitch.divide(next * tile_pixels) - segment.first_row
                           : number + segment.rows;
      if (!bad) release(done);

      finish_sums<precision, Out, filters>(p, control, lane, y);
      const int which = group + computing_groups * (count & in_turn), parity = count >> in_turn & 1;
      const PixelPlaces& places = control.places[which];
      Out* buffer = reinterpret_cast<Out*>(buffers + which * p.buffer_bytes);
      ptx::barrier_wait(&control.buffer_free[which], parity);
      if (p.nhwc) {
        Pixels<Out, filters>{p, buffer, first_filter, thread}.put(places, y);
      } else {
        Planes<Out, filters>{p, buffer, first_filter, thread}.put(places, y);
      }
      if (bad) {
        bring_params(p, scratch, thread);
        exact_tile<precision, Out, filters>({TileMap(p, segment, t), ring, first_slot, control.bad_units}, places,
                                            buffer, scratch, first_filter, 1 + group, thread);
      }
      ptx::barrier_arrive(&control.buffer_full[which]);
      if (bad) release(done);
    }
    turn = t - segment.end;
    number += segment.rows;
    release(number);
    at += segment.units;
  }
}

/// The storing warpgroup takes tile i from buffer i % p.buffers.
template <Precision precision, class Out, int filters, template <class, int> class Store>
__device__ __forceinline__ void store_tiles(const Params& p, SharedControl& control, unsigned char* buffers, int split,
                                            int first, int last) {
  const auto store_of = [&](int which) {
    Out* buffer = reinterpret_cast<Out*>(buffers + which * p.buffer_bytes);
    return Store<Out, filters>{p, buffer, split * filters, static_cast<int>(threadIdx.x & 127)};
  };
  TileWalk tile(p, first, last), coming(p, first, last);
  const auto hand_over = [&](int which) {
    if (!coming.done()) {
      store_of(which).announce(TileMap(p, coming.segment, coming.tile), control.places[which]);
      coming.advance(p);
    }
    ptx::barrier_arrive(&control.buffer_free[which]);
  };
  for (int which = 0; which < p.buffers; ++which) hand_over(which);
  for (int which = 0, parity = 0; !tile.done(); tile.advance(p)) {
    const Store<Out, filters> store = store_of(which);
    const TileMap map(p, tile.segment, tile.tile);
    const typename Store<Out, filters>::Places places = store.prepare(map);
    ptx::barrier_wait(&control.buffer_full[which], parity);
    if (tile.at == first) wait_for_predecessor();  // it may still read what this one writes
    store.drain(map, places);
    hand_over(which);
    if (++which == p.buffers) which = 0, parity ^= 1;
  }
}

}  // namespace lamina::cuda::first_layer
