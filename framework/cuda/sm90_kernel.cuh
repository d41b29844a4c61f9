#pragma once

#include "lamina/cuda/sm90_barrier.cuh"
#include "lamina/cuda/sm90_epilogue.cuh"
#include "lamina/cuda/sm90_exact.cuh"
#include "lamina/cuda/sm90_modes.cuh"
#include "lamina/cuda/sm90_stage.cuh"
#include "lamina/cuda/sm90_walk.cuh"
#include "lamina/cuda/sm90_wgmma.cuh"

/// Implicit GEMM for few input channels on Hopper. docs/hopper.md has the pictures and the clock budget.
///
/// Block: persistent, one per SM; owns `filters` output channels (their packed weights stay in shared memory) and a
/// contiguous range of 64-pixel tiles. Staging warpgroups fill the ring of input rows; computing warpgroups take
/// tiles in turn: wgmma straight from the ring, then bias, ReLU and the transposing store, while others compute.
/// Shared memory: weights | ring | one store buffer per computing warpgroup; barriers and range flags are static.
namespace lamina::cuda::sm90 {

/// Warpgroups of a block and the registers that their threads get.
template <Precision precision>
struct Team {
  static constexpr int staging = 2, computing = 3;
  static constexpr int raw_slots = 2;  // per staging warpgroup: ring rows on their way
  static constexpr int staging_registers = 64, computing_registers = 112;
  static constexpr int threads = 128 * (staging + computing);
};
/// Three sets of accumulators (see multiply): fewer threads with more registers.
template <>
struct Team<Precision::fp32> {
  static constexpr int staging = 2, computing = 2, raw_slots = 1;
  static constexpr int staging_registers = 88, computing_registers = 168;
  static constexpr int threads = 128 * (staging + computing);
};

inline constexpr int staging_barrier = 8;  ///< named barriers 8, 9 join the staging warpgroups, 1, 2, 3 the computing

/// Columns of B: the filters, and behind them their residuals where operands are split.
template <Precision precision, int filters>
inline constexpr int columns = Mode<precision>::split ? 2 * filters : filters;

struct alignas(16) SharedControl {
  std::uint64_t weights_landed;
  std::uint64_t raw_landed[4];  // of all staging warpgroups
  std::uint64_t row_full[max_ring_rows];
  std::uint64_t row_free[max_ring_rows];
  uint4 bad_units[max_ring_rows];  // a word per staging warp
  float2 bias[96 / 2], scale[96 / 2];
};

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
  wait_for_previous_kernel();
  for (int i = 0; i < slots && !coming.done(); ++i, coming.advance(p, groups)) raw.fetch(coming, i);
  for (; !row.done(); row.advance(p, groups), to.advance(groups), from.advance()) {
    barrier_wait(&raw.landed[from.slot], from.parity);
    barrier_wait(&control.row_free[to.slot], to.parity ^ 1);
    const BadUnits bad = stager.convert_row(row, raw.slot(from.slot), raw.first_column(row), to.slot);
    std::uint32_t flag = no_bad_units;
    if (__any_sync(0xFFFFFFFFu, bad.low <= bad.high)) {
      flag = __reduce_min_sync(0xFFFFFFFFu, bad.low) << 16 | __reduce_max_sync(0xFFFFFFFFu, bad.high);
    }
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) {
      reinterpret_cast<std::uint32_t*>(&control.bad_units[to.slot])[warp] = flag;
      barrier_arrive(&control.row_full[to.slot]);
    }
    if (!coming.done()) {
      warpgroup_sync(staging_barrier + group);  // everyone has read the raw rows
      raw.fetch(coming, from.slot);
      coming.advance(p, groups);
    }
  }
}

/// Calls `step(s, a, first)` for each k16 step s of a group, `a` being the first unit of the ring row it reads.
template <class Step>
__device__ __forceinline__ void for_each_step(const StepGroup& group, std::uint32_t a, Step step) {
  if (group.end - group.begin == 3 * steps_per_round) {
#pragma unroll
    for (int i = 0; i < 3 * steps_per_round; ++i) step(group.begin + i, a);
  } else {
#pragma unroll 1
    for (int s = group.begin; s < group.end; s += steps_per_round) {
#pragma unroll
      for (int i = 0; i < steps_per_round; ++i) step(s + i, a);
    }
  }
}

/// One tile's products, added to `sum` [filters / 2] in fragment order; `meanwhile` runs while the tensor cores do.
template <Precision precision, int filters, class Meanwhile>
__device__ __forceinline__ void multiply(const Params& p, std::uint32_t ring, std::uint32_t weights, int first_slot,
                                         int column, float (&sum)[filters / 2], Meanwhile meanwhile) {
  using M = Mode<precision>;
  using Operand = typename M::Operand;
  constexpr int b_columns = columns<precision, filters>;
  constexpr std::uint32_t b_step = b_columns * 2;                    // 16 K x columns x 2 bytes, in units
  const std::uint32_t b = weights | std::uint32_t{b_columns} << 16;  // the K halves are columns x 16 bytes apart
  const auto ring_row = [&](int shift) {
    const int slot = first_slot + shift;
    return ring + (slot < p.ring_rows ? slot : slot - p.ring_rows) * p.pitch + column;
  };
  if constexpr (!M::split) {
    pin(sum);
    wgmma_fence();
#pragma unroll 1
    for (int g = 0; g < p.groups; ++g) {
      for_each_step(p.group[g], ring_row(p.group[g].shift), [&](int s, std::uint32_t a) {
        Wgmma<Operand, b_columns>::run(sum, descriptor(a + p.step[s]), descriptor(b + s * b_step), true);
      });
    }
    wgmma_commit();
    meanwhile();
    wgmma_wait();
    pin(sum);
  } else {
    // `high`: high * high, then high * residual; `low`: residual * high, like its neighbour residual_scale times too
    // large. Folded into `sum` after each group, before the truncation of a long chain shows.
    const std::uint32_t residual = p.phases * p.channels * p.plane_units;
#pragma unroll 1
    for (int g = 0; g < p.groups; ++g) {
      const StepGroup group = p.group[g];
      const std::uint32_t a_first = ring_row(group.shift);
      float high[filters], low[filters / 2];
      pin(high), pin(low);
      wgmma_fence();
      for_each_step(group, a_first, [&](int s, std::uint32_t a) {
        Wgmma<Operand, b_columns>::run(high, descriptor(a + p.step[s]), descriptor(b + s * b_step), s != group.begin);
      });
      for_each_step(group, a_first + residual, [&](int s, std::uint32_t a) {
        Wgmma<Operand, filters>::run(low, descriptor(a + p.step[s]), descriptor(b + s * b_step), s != group.begin);
      });
      wgmma_commit();
      if (g == 0) meanwhile();
      wgmma_wait();
      pin(high), pin(low);
#pragma unroll
      for (int i = 0; i < filters / 2; ++i) {
        sum[i] = fmaf(high[filters / 2 + i] + low[i], 1.0f / residual_scale, sum[i]) + high[i];
      }
    }
  }
}

template <Precision precision, class Out, int filters>
__device__ __forceinline__ void compute_tiles(const Params& p, SharedControl& control, std::uint32_t weights,
                                              std::uint32_t ring, Out* buffer, int group, int split, int tile,
                                              int last) {
  using M = Mode<precision>;
  constexpr int computing_groups = Team<precision>::computing;
  const int thread = threadIdx.x & 127, lane = thread & 31;
  const int first_filter = split * filters;
  const Epilogue<Out, filters> epilogue{p, buffer, first_filter, 1 + group, thread};
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
      if (lane == 0) barrier_arrive(&control.row_free[released.slot]);
    }
  };

  int number = 0, turn = group;  // of the segment's first row; tiles until this warpgroup's next one
  while (tile < last) {
    const Segment segment(p, tile, last);
    int t = segment.begin + turn;
    for (; t < segment.end; t += computing_groups) {
      const int row = p.by_pitch.divide(t * tile_pixels), column = t * tile_pixels - row * p.pitch;
      const int first = number + row - segment.first_row;
      const int end = number + Segment::last_row(p, t) - segment.first_row + 1;
      release(first);
      wait_ready(end);
      bool bad = p.any_inexact;
      const TileMap map{row, column, segment.first_column};
      typename Epilogue<Out, filters>::Places places;
      const auto meanwhile = [&] {
        for (int i = lane; i < end - first; i += 32) {
          const int slot = released.slot + i;
          const uint4 flag = control.bad_units[slot < p.ring_rows ? slot : slot - p.ring_rows];
          bad |= (flag.x & flag.y & flag.z & flag.w) != no_bad_units ||
                 (flag.x | flag.y | flag.z | flag.w) != no_bad_units;
        }
        bad = __any_sync(0xFFFFFFFFu, bad);
        places = epilogue.prepare(map, segment.image);
      };
      float y[filters / 2];
#pragma unroll
      for (int j = 0; j < filters / 8; ++j) {
        // Unscaled sums start at the bias; scaled ones meet it after scaling.
        const float2 bias =
            M::scaled ? make_float2(0.0f, 0.0f) : control.bias[column_filter(8 * j + 2 * (lane & 3)) / 2];
        y[4 * j] = y[4 * j + 2] = bias.x, y[4 * j + 1] = y[4 * j + 3] = bias.y;
      }
      multiply<precision, filters>(p, ring, weights, released.slot, column, y, meanwhile);

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
      epilogue.store(places, y);
      if (bad) {
        warpgroup_sync(1 + group);  // the exact values come after the others
        exact_tile<precision, Out, filters>(p, {map, segment.image, first_slot, control.bad_units},
                                            *reinterpret_cast<ExactScratch*>(buffer), first_filter, 1 + group, thread);
        release(done);
      }
    }
    turn = t - segment.end;
    number += segment.rows;
    release(number);
    tile += segment.end - segment.begin;
  }
}

template <Precision precision, class Out, int filters>
__global__ void __launch_bounds__(Team<precision>::threads, 1) conv2d_sm90_kernel(const __grid_constant__ Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ SharedControl control;
  const int weight_bytes = p.steps * columns<precision, filters> * 32;
  unsigned char* ring = shared + weight_bytes;
  const int ring_bytes = (Mode<precision>::split ? 2 : 1) * p.phases * p.channels * p.plane_units * unit_bytes;

  const int warpgroup = __shfl_sync(0xFFFFFFFFu, threadIdx.x >> 7, 0);
  const int split = blockIdx.x % p.splits, ranges = gridDim.x / p.splits, range = blockIdx.x / p.splits;
  const int tile = static_cast<int>(std::int64_t{p.tiles} * range / ranges);
  const int last = static_cast<int>(std::int64_t{p.tiles} * (range + 1) / ranges);

  if (threadIdx.x == 0) {
    barrier_init(&control.weights_landed, 1);
    for (std::uint64_t& landed : control.raw_landed) barrier_init(&landed, RawRows::arrivals(p));
    for (int i = 0; i < p.ring_rows; ++i) {
      barrier_init(&control.row_full[i], staging_warps);
      barrier_init(&control.row_free[i], 4 * Team<precision>::computing);
    }
    barrier_init_fence();
    barrier_arrive_expect(&control.weights_landed, weight_bytes);
    const unsigned char* from = static_cast<const unsigned char*>(p.weights) + std::int64_t{split} * weight_bytes;
    for (int at = 0; at < weight_bytes; at += 16384) {
      bulk_load(shared + at, from + at, min(16384, weight_bytes - at), &control.weights_landed);
    }
  }
  if (threadIdx.x < filters) {
    reinterpret_cast<float*>(control.bias)[threadIdx.x] = p.bias[split * filters + threadIdx.x];
    reinterpret_cast<float*>(control.scale)[threadIdx.x] = p.scale[split * filters + threadIdx.x];
  }
  __syncthreads();
  let_next_kernel_start();

  unsigned char* buffers = ring + ring_bytes;
  constexpr int one_buffer = buffer_bytes(filters, sizeof(Out));
  if (warpgroup < Team<precision>::staging) {
    give_registers_back<Team<precision>::staging_registers>();
    unsigned char* raw = buffers + Team<precision>::computing * one_buffer;
    if (p.wide_pieces) {
      stage_rows<precision, true>(p, control, shared_address(ring), raw, warpgroup, tile, last);
    } else {
      stage_rows<precision, false>(p, control, shared_address(ring), raw, warpgroup, tile, last);
    }
  } else {
    take_registers<Team<precision>::computing_registers>();
    wait_for_previous_kernel();
    const int group = warpgroup - Team<precision>::staging;
    compute_tiles<precision, Out, filters>(
        p, control, shared_address(shared) / unit_bytes, shared_address(ring) / unit_bytes,
        reinterpret_cast<Out*>(buffers + group * one_buffer), group, split, tile, last);
  }
#endif
}

}  // namespace lamina::cuda::sm90
