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
  static constexpr int staging_registers = 64, computing_registers = 112;
  static constexpr int threads = 128 * (staging + computing);
};
/// Three sets of accumulators (see multiply): fewer threads with more registers.
template <>
struct Team<Precision::fp32> {
  static constexpr int staging = 2, computing = 2;
  static constexpr int staging_registers = 88, computing_registers = 168;
  static constexpr int threads = 128 * (staging + computing);
};

/// Columns of B: the filters, and behind them their residuals where operands are split.
template <Precision precision, int filters>
inline constexpr int columns = Mode<precision>::split ? 2 * filters : filters;

struct alignas(16) SharedControl {
  std::uint64_t weights_landed;
  std::uint64_t row_full[max_ring_rows];
  std::uint64_t row_free[max_ring_rows];
  uint4 bad_units[max_ring_rows];  // a word per staging warp
  float2 bias[96 / 2], scale[96 / 2];
};

template <Precision precision, bool wide>
__device__ __forceinline__ void stage_rows(const Params& p, SharedControl& control, std::uint32_t ring, int group,
                                           int tile, int last) {
  constexpr int ahead = 6, groups = Team<precision>::staging;  // ring rows to ask L2 for in advance
  static_assert(ahead % groups == 0);
  const int thread = threadIdx.x & 127, warp = thread >> 5, lane = thread & 31;
  Stager<Mode<precision>, wide> stager(p, ring, thread);
  RingCursor to{p.ring_rows};
  RowWalk row(p, tile, last), coming(p, tile, last);
  to.advance(group), row.advance(p, group), coming.advance(p, group);
  for (int i = 0; i < ahead && !coming.done(); i += groups, coming.advance(p, groups)) {
    if (warp == 0) coming.prefetch(p, lane);
  }
  wait_for_previous_kernel();
  for (; !row.done(); row.advance(p, groups), coming.advance(p, groups), to.advance(groups)) {
    if (warp == 0 && !coming.done()) coming.prefetch(p, lane);
    const BadUnits bad = stager.fill(row, to.slot, [&] { barrier_wait(&control.row_free[to.slot], to.parity ^ 1); });
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
  }
}

/// Calls `step(s, a)` for each k16 step s, `a` being the first unit of the ring row it reads at the tile's column, and
/// `folded()` after each group.
template <class Step, class Folded>
__device__ __forceinline__ void for_each_step(const Params& p, std::uint32_t ring, int first_slot, int column,
                                              Step step, Folded folded) {
  const auto ring_row = [&](int shift) {
    const int slot = first_slot + shift;
    return ring + (slot < p.ring_rows ? slot : slot - p.ring_rows) * p.pitch + column;
  };
#pragma unroll 1
  for (int g = 0; g < p.groups; ++g) {
    const StepGroup group = p.group[g];
    const std::uint32_t a = ring_row(group.shift);
#pragma unroll 1
    for (int s = group.begin; s < group.end; s += steps_per_round) {
#pragma unroll
      for (int i = 0; i < steps_per_round; ++i) step(s + i, a);
    }
    folded();
  }
}

/// One tile's products. `sum` [filters / 2] in fragment order; `meanwhile` runs while the tensor cores do.
template <Precision precision, int filters, class Meanwhile>
__device__ __forceinline__ void multiply(const Params& p, std::uint32_t ring, std::uint32_t weights, int first_slot,
                                         int column, float (&sum)[filters / 2], Meanwhile meanwhile) {
  using M = Mode<precision>;
  using Operand = typename M::Operand;
  constexpr int b_columns = columns<precision, filters>;
  constexpr std::uint32_t b_step = b_columns * 2;                    // 16 K x columns x 2 bytes, in units
  const std::uint32_t b = weights | std::uint32_t{b_columns} << 16;  // the K halves are columns x 16 bytes apart
#pragma unroll
  for (int i = 0; i < filters / 2; ++i) sum[i] = 0.0f;
  if constexpr (!M::split) {
    pin(sum);
    wgmma_fence();
    for_each_step(
        p, ring, first_slot, column,
        [&](int s, std::uint32_t a) {
          Wgmma<Operand, b_columns>::run(sum, descriptor(a + p.step[s]), descriptor(b + s * b_step));
        },
        [] {});
    wgmma_commit();
    meanwhile();
    wgmma_wait();
    pin(sum);
  } else {
    // high: [0, filters / 2) high * high, truncated at every step and therefore folded into `sum` before the drift
    // shows; then high * residual. low: residual * high. Those two are residual_scale times too large.
    float high[filters], low[filters / 2];
#pragma unroll
    for (int i = 0; i < filters; ++i) high[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < filters / 2; ++i) low[i] = 0.0f;
    const std::uint32_t residual = p.phases * p.channels * p.plane_units;
    pin(high), pin(low);
    wgmma_fence();
    for_each_step(
        p, ring, first_slot, column,
        [&](int s, std::uint32_t a) {
          const std::uint64_t b_here = descriptor(b + s * b_step);
          Wgmma<Operand, b_columns>::run(high, descriptor(a + p.step[s]), b_here);
          Wgmma<Operand, filters>::run(low, descriptor(a + residual + p.step[s]), b_here);
        },
        [&] {
          wgmma_commit();
          wgmma_wait();
          pin(high), pin(low);
#pragma unroll
          for (int i = 0; i < filters / 2; ++i) {
            sum[i] += high[i];
            high[i] = 0.0f;
          }
          pin(high), pin(low);
          wgmma_fence();
        });
    meanwhile();
#pragma unroll
    for (int i = 0; i < filters / 2; ++i) {
      sum[i] = fmaf(high[filters / 2 + i] + low[i], 1.0f / residual_scale, sum[i]);
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

  const float floor = relu_floor(p);
  RingCursor ready{p.ring_rows}, released{p.ring_rows};  // the first row not known staged, not yet let go
  const auto wait_ready = [&](int end) {
    for (; ready.number < end; ready.advance()) barrier_wait(&control.row_full[ready.slot], ready.parity);
  };
  // In order and never before the row was staged: each warp arrives exactly once per use of a slot.
  const auto release = [&](int end) {
    wait_ready(end);
    for (; released.number < end; released.advance()) {
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
      const auto check_flags = [&] {
        for (int i = lane; i < end - first; i += 32) {
          const int slot = released.slot + i;
          const uint4 flag = control.bad_units[slot < p.ring_rows ? slot : slot - p.ring_rows];
          bad |= (flag.x & flag.y & flag.z & flag.w) != no_bad_units ||
                 (flag.x | flag.y | flag.z | flag.w) != no_bad_units;
        }
        bad = __any_sync(0xFFFFFFFFu, bad);
      };
      float y[filters / 2];
      multiply<precision, filters>(p, ring, weights, released.slot, column, y, check_flags);

      const int first_slot = released.slot, next = t + computing_groups;
      const int done = next < segment.end ? number + p.by_pitch.divide(next * tile_pixels) - segment.first_row
                                          : number + segment.rows;
      if (!bad) release(done);

#pragma unroll
      for (int j = 0; j < filters / 8; ++j) {
        const float2 bias = control.bias[4 * j + (lane & 3)];
        const float2 scale = M::scaled ? control.scale[4 * j + (lane & 3)] : make_float2(1.0f, 1.0f);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float s = i % 2 == 0 ? scale.x : scale.y, b = i % 2 == 0 ? bias.x : bias.y;
          y[4 * j + i] = at_least(M::scaled ? fmaf(y[4 * j + i], s, b) : y[4 * j + i] + b, floor);
        }
      }
      const TileMap map{row, column, segment.first_column};
      epilogue.store(map, segment.image, y);
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

  if (warpgroup < Team<precision>::staging) {
    give_registers_back<Team<precision>::staging_registers>();
    const std::uint32_t ring_address = shared_address(ring);
    if (p.wide_loads) {
      stage_rows<precision, true>(p, control, ring_address, warpgroup, tile, last);
    } else {
      stage_rows<precision, false>(p, control, ring_address, warpgroup, tile, last);
    }
  } else {
    take_registers<Team<precision>::computing_registers>();
    wait_for_previous_kernel();
    const int group = warpgroup - Team<precision>::staging;
    unsigned char* buffer = ring + ring_bytes + group * epilogue_bytes<Out, filters>;
    compute_tiles<precision, Out, filters>(p, control, shared_address(shared) / unit_bytes,
                                           shared_address(ring) / unit_bytes, reinterpret_cast<Out*>(buffer), group,
                                           split, tile, last);
  }
#endif
}

}  // namespace lamina::cuda::sm90
