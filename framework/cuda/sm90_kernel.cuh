#pragma once

#include "lamina/cuda/sm90_barrier.cuh"
#include "lamina/cuda/sm90_epilogue.cuh"
#include "lamina/cuda/sm90_exact.cuh"
#include "lamina/cuda/sm90_modes.cuh"
#include "lamina/cuda/sm90_stage.cuh"
#include "lamina/cuda/sm90_wgmma.cuh"

/// Implicit GEMM for few input channels on Hopper. docs/hopper.md has the pictures and the clock budget.
///
/// Block: persistent, one per SM; owns `filters` output channels (their packed weights stay in shared memory) and a
/// contiguous range of 64-pixel tiles. Staging warpgroups fill the ring of input rows; computing warpgroups take
/// tiles in turn: wgmma straight from the ring, then bias, ReLU and the transposing store, while others compute.
/// Shared memory: weights | ring | one store buffer per computing warpgroup; barriers and range flags are static.
namespace lamina::cuda::sm90 {

#ifndef LAMINA_SM90_STAGING
#define LAMINA_SM90_STAGING 2
#define LAMINA_SM90_COMPUTING 2
#define LAMINA_SM90_STAGING_REGS 88
#define LAMINA_SM90_COMPUTING_REGS 168
#endif
inline constexpr int staging_groups = LAMINA_SM90_STAGING;
inline constexpr int computing_groups = LAMINA_SM90_COMPUTING;
inline constexpr int block_threads = 128 * (staging_groups + computing_groups);
static_assert(128 * (staging_groups * LAMINA_SM90_STAGING_REGS + computing_groups * LAMINA_SM90_COMPUTING_REGS) <= 65536);

/// Columns of B: the filters, and behind them their residuals where operands are split.
template <Precision precision, int filters>
inline constexpr int columns = Mode<precision>::split ? 2 * filters : filters;

struct alignas(16) SharedControl {
  std::uint64_t weights_landed;
  std::uint64_t row_full[max_ring_rows];
  std::uint64_t row_free[max_ring_rows];
  std::uint32_t bad_units[max_ring_rows * staging_warps];
};

/// Ring rows are numbered in the order they are staged; number s lives in slot s % ring_rows.
struct RingClock {
  int rows;
  __device__ __forceinline__ int slot(int number) const { return number % rows; }
  __device__ __forceinline__ int parity(int number) const { return number / rows & 1; }
};

/// The part of a block's tile range that lies in one strip of one image.
struct Segment {
  std::int64_t image;
  int first_column;        // of the strip
  int begin, end;          // tiles within the strip
  int first_row, rows;     // ring rows that they need

  __device__ __forceinline__ Segment(const Params& p, int tile, int last) {
    const int strip = tile / p.tiles_per_strip;
    image = strip / p.strips;
    first_column = (strip - static_cast<int>(image) * p.strips) * p.strip_width;
    begin = tile - strip * p.tiles_per_strip;
    end = min(p.tiles_per_strip, begin + (last - tile));
    first_row = begin * tile_pixels / p.pitch;
    rows = last_row(p, end - 1) - first_row + 1;
  }
  /// The last ring row that tile `t` of the strip reads.
  __device__ __forceinline__ static int last_row(const Params& p, int t) {
    return min((t * tile_pixels + tile_pixels - 1) / p.pitch, p.out_height - 1) + p.halo_rows;
  }
};

template <Precision precision>
__device__ __forceinline__ void stage_rows(const Params& p, SharedControl& control, unsigned char* ring, int group,
                                           int tile, int last) {
  const Stager<Mode<precision>> stager{p, ring};
  const RingClock clock{p.ring_rows};
  const int thread = threadIdx.x & 127;
  int number = 0;
  while (tile < last) {
    const Segment segment(p, tile, last);
    const float* image = p.input + segment.image * p.channels * p.in_height * p.in_width;
    for (int i = 0; i < segment.rows; ++i, ++number) {
      if (number % staging_groups != group) continue;
      const int slot = clock.slot(number);
      const RingRow row{image, segment.first_row + i, segment.first_column, slot};
      const BadUnits bad =
          stager.fill(row, thread, [&] { barrier_wait(&control.row_free[slot], clock.parity(number) ^ 1); });
      std::uint32_t flag = no_bad_units;
      if (__any_sync(0xFFFFFFFFu, bad.packed() != no_bad_units)) {
        flag = __reduce_min_sync(0xFFFFFFFFu, bad.low) << 16 | __reduce_max_sync(0xFFFFFFFFu, bad.high);
      }
      fence_async_proxy();
      const int warp = thread >> 5;
      if ((thread & 31) == 0) {
        control.bad_units[slot * staging_warps + warp] = flag;
        barrier_arrive(&control.row_full[slot]);
      }
      __syncwarp();
    }
    tile += segment.end - segment.begin;
  }
}

/// One tile's products. `sum` [filters / 2] in fragment order.
template <Precision precision, int filters>
__device__ __forceinline__ void multiply(const Params& p, std::uint32_t ring, std::uint32_t weights, int first_number,
                                         int column, float (&sum)[filters / 2]) {
  using M = Mode<precision>;
  using Operand = typename M::Operand;
  constexpr int b_columns = columns<precision, filters>;
  constexpr std::uint32_t b_step = b_columns * 2;                  // 16 K x columns x 2 bytes, in units
  const std::uint32_t b = weights | std::uint32_t{b_columns} << 16;  // the K halves are columns x 16 bytes apart
  const RingClock clock{p.ring_rows};
  if constexpr (!M::split) {
#pragma unroll
    for (int i = 0; i < filters / 2; ++i) sum[i] = 0.0f;
    pin(sum);
    wgmma_fence();
    for (int g = 0; g < p.groups; ++g) {
      const StepGroup group = p.group[g];
      const std::uint32_t a = ring + clock.slot(first_number + group.shift) * p.pitch + column;
#pragma unroll 3
      for (int s = group.begin; s < group.end; ++s) {
        Wgmma<Operand, b_columns>::run(sum, descriptor(a + p.step[s]), descriptor(b + s * b_step));
      }
    }
    wgmma_commit();
    wgmma_wait();
    pin(sum);
  } else {
    // [0, filters / 2): high * high. Truncated at every step, so folded into `sum` before the drift shows.
    // [filters / 2, filters): the two small products, 2048 times too large.
    float d[filters];
#pragma unroll
    for (int i = 0; i < filters; ++i) d[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < filters / 2; ++i) sum[i] = 0.0f;
    const int residual = p.phases * p.channels * p.plane_units;
    for (int g = 0; g < p.groups; ++g) {
      const StepGroup group = p.group[g];
      const std::uint32_t a = ring + clock.slot(first_number + group.shift) * p.pitch + column;
      pin(d);
      wgmma_fence();
#pragma unroll 3
      for (int s = group.begin; s < group.end; ++s) {
        const std::uint64_t b_here = descriptor(b + s * b_step);
        Wgmma<Operand, b_columns>::run(d, descriptor(a + p.step[s]), b_here);
        Wgmma<Operand, filters>::template run<filters / 2>(d, descriptor(a + residual + p.step[s]), b_here);
      }
      wgmma_commit();
      wgmma_wait();
      pin(d);
#pragma unroll
      for (int i = 0; i < filters / 2; ++i) {
        sum[i] += d[i];
        d[i] = 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < filters / 2; ++i) sum[i] = fmaf(d[filters / 2 + i], 1.0f / residual_scale, sum[i]);
  }
}

template <Precision precision, class Out, int filters>
__device__ __forceinline__ void compute_tiles(const Params& p, SharedControl& control, std::uint32_t weights,
                                              std::uint32_t ring, Out* buffer, int group, int split, int tile,
                                              int last) {
  using M = Mode<precision>;
  const int thread = threadIdx.x & 127, lane = thread & 31;
  const RingClock clock{p.ring_rows};
  const int first_filter = split * filters;
  const Epilogue<Out, filters> epilogue{p, buffer, first_filter, 1 + group, thread};
  float scale[M::scaled ? filters / 4 : 1], bias[filters / 4];
#pragma unroll
  for (int j = 0; j < filters / 4; ++j) {
    const int f = first_filter + 8 * (j >> 1) + 2 * (lane & 3) + (j & 1);
    bias[j] = __ldg(p.bias + f);
    if constexpr (M::scaled) scale[j] = __ldg(p.scale + f);
  }
  barrier_wait(&control.weights_landed, 0);

  int ready = 0, released = 0;  // ring rows known to be staged; ring rows that this warp has let go
  const auto wait_ready = [&](int end) {
    for (; ready < end; ++ready) barrier_wait(&control.row_full[clock.slot(ready)], clock.parity(ready));
  };
  // In order and never before the row was staged: each warp arrives exactly once per use of a slot.
  const auto release = [&](int end) {
    wait_ready(end);
    for (; released < end; ++released) {
      if (lane == 0) barrier_arrive(&control.row_free[clock.slot(released)]);
    }
  };

  int number = 0, turn = 0;
  while (tile < last) {
    const Segment segment(p, tile, last);
    for (int t = segment.begin; t < segment.end; ++t, turn = turn + 1 == computing_groups ? 0 : turn + 1) {
      if (turn != group) continue;
      const int row = t * tile_pixels / p.pitch, column = t * tile_pixels - row * p.pitch;
      const int first = number + row - segment.first_row;
      const int end = number + Segment::last_row(p, t) - segment.first_row + 1;
      wait_ready(end);
      float y[filters / 2];
      multiply<precision, filters>(p, ring, weights, first, column, y);

      bool bad = p.any_inexact;
      for (int i = lane; i < (end - first) * staging_warps; i += 32) {
        const int slot = clock.slot(first + i / staging_warps);
        bad |= control.bad_units[slot * staging_warps + i % staging_warps] != no_bad_units;
      }
      bad = __any_sync(0xFFFFFFFFu, bad);
      const int next = t + computing_groups;
      const int done =
          next < segment.end ? number + next * tile_pixels / p.pitch - segment.first_row : number + segment.rows;
      if (!bad) release(done);

#pragma unroll
      for (int i = 0; i < filters / 2; ++i) {
        const int j = 2 * (i >> 2) + (i & 1);
        y[i] = M::scaled ? fmaf(y[i], scale[M::scaled ? j : 0], bias[j]) : y[i] + bias[j];
        if (p.relu) y[i] = relu(y[i]);
      }
      const TileMap map{row, column, segment.first_column};
      epilogue.store(map, segment.image, y);
      if (bad) {
        warpgroup_sync(1 + group);  // the exact values come after the others
        exact_tile<precision, Out, filters>(p, {map, segment.image, clock.slot(first), control.bad_units},
                                            first_filter, thread);
        release(done);
      }
    }
    number += segment.rows;
    release(number);
    tile += segment.end - segment.begin;
  }
}

template <Precision precision, class Out, int filters>
__global__ void __launch_bounds__(block_threads, 1) conv2d_sm90_kernel(const __grid_constant__ Params p) {
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
      barrier_init(&control.row_full[i], 4);
      barrier_init(&control.row_free[i], 4 * computing_groups);
    }
    barrier_init_fence();
    barrier_arrive_expect(&control.weights_landed, weight_bytes);
    const unsigned char* from = static_cast<const unsigned char*>(p.weights) + std::int64_t{split} * weight_bytes;
    for (int at = 0; at < weight_bytes; at += 16384) {
      bulk_load(shared + at, from + at, min(16384, weight_bytes - at), &control.weights_landed);
    }
  }
  for (int i = threadIdx.x; i < p.ring_rows * staging_warps; i += block_threads) control.bad_units[i] = no_bad_units;
  __syncthreads();
  wait_for_previous_kernel();
  let_next_kernel_start();

  if (warpgroup < staging_groups) {
    give_registers_back<LAMINA_SM90_STAGING_REGS>();
    stage_rows<precision>(p, control, ring, warpgroup, tile, last);
  } else {
    take_registers<LAMINA_SM90_COMPUTING_REGS>();
    const int group = warpgroup - staging_groups;
    unsigned char* buffer = ring + ring_bytes + group * epilogue_bytes<Out, filters>;
    compute_tiles<precision, Out, filters>(p, control, shared_address(shared) / unit_bytes,
                                           shared_address(ring) / unit_bytes, reinterpret_cast<Out*>(buffer), group,
                                           split, tile, last);
  }
#endif
}

}  // namespace lamina::cuda::sm90
