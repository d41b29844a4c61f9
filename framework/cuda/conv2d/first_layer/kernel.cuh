#pragma once

#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/roles.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

/// Implicit GEMM for few input channels on Hopper. docs/inside/first_layer.md has the pictures and the clock budget.
///
/// Block: persistent, one per SM; owns `filters` output channels (their packed weights stay in shared memory) and a
/// contiguous range of 64-pixel tiles. Staging warpgroups fill the ring of input rows; computing warpgroups take
/// tiles in turn, wgmma straight from the ring; storing warpgroups write finished tiles while the next are multiplied.
/// Dynamic shared memory: weights | ring | store buffers | image rows on their way | scratch
/// memory per computing warpgroup.
namespace lamina::cuda::first_layer {

template <Precision precision, class Out, int filters>
__global__ void __launch_bounds__(Team<precision>::threads, 1) first_layer_kernel(const __grid_constant__ Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ SharedControl control;
  const int weight_bytes = p.steps * columns<precision, filters> * 32;
  unsigned char* ring = shared + weight_bytes;
  const int ring_bytes = (Mode<precision>::split ? 2 : 1) * p.phases * p.channels * p.plane_units * unit_bytes;

  const int warpgroup = __shfl_sync(0xFFFFFFFFu, threadIdx.x >> 7, 0);
  const int split = blockIdx.x % p.splits, range = blockIdx.x / p.splits;
  const int first = range * p.share + min(range, p.larger_shares);
  const int last = first + p.share + (range < p.larger_shares ? 1 : 0);

  // Weights are asked for first; what else has to be set up is spread over the threads.
  const int thread = static_cast<int>(threadIdx.x);
  float bias = 0, scale = 0;
  if (thread < filters) bias = p.bias[split * filters + thread], scale = p.scale[split * filters + thread];
  if (thread == 0) {
    ptx::barrier_init(&control.weights_landed, 1 + filters);
    ptx::barrier_init_fence();
    ptx::barrier_arrive_expect(&control.weights_landed, weight_bytes);
    const unsigned char* from = static_cast<const unsigned char*>(p.weights) + std::int64_t{split} * weight_bytes;
    for (int at = 0; at < weight_bytes; at += 16384) {
      ptx::bulk_load(shared + at, from + at, min(16384, weight_bytes - at), &control.weights_landed);
    }
  }
  if (thread >= 128 && thread - 128 < p.ring_rows) {
    ptx::barrier_init(&control.row_full[thread - 128], 32 * staging_warps);
    ptx::barrier_init(&control.row_free[thread - 128], 128 * Team<precision>::computing);
    ptx::barrier_init_fence();
  }
  if (thread >= 256 && thread - 256 < pool_buffers) {
    ptx::barrier_init(&control.buffer_full[thread - 256], 128);
    ptx::barrier_init(&control.buffer_free[thread - 256], 128);
    ptx::barrier_init(&control.raw_landed[thread - 256], RawRows::arrivals(p));
    ptx::barrier_init_fence();
  }
  __syncthreads();
  let_successor_start();
  // Behind the barrier of all: nobody waits for these to come from memory but those who multiply.
  if (thread < filters) {
    reinterpret_cast<float*>(control.bias)[thread] = bias;
    reinterpret_cast<float*>(control.scale)[thread] = scale;
    ptx::barrier_arrive(&control.weights_landed);
  }

  unsigned char* buffers = ring + ring_bytes;
  constexpr int computing = Team<precision>::computing, staging = Team<precision>::staging;
  if (warpgroup < computing) {
    ptx::take_registers<Team<precision>::computing_registers>();
    compute_tiles<precision, Out, filters>(
        p, control, ptx::shared_address(shared) / unit_bytes, ptx::shared_address(ring) / unit_bytes, buffers,
        *reinterpret_cast<ExactScratch*>(shared + p.exact_scratch + warpgroup * p.exact_scratch_bytes), warpgroup,
        split, first, last);
  } else {
    ptx::give_registers_back<Team<precision>::other_registers>();
    const int group = warpgroup - computing;
    unsigned char* raw = buffers + p.buffers * p.buffer_bytes;
    if (group < staging) {
      const auto stage = [&](auto element) {
        using In = decltype(element);
        if (p.wide_pieces) {
          stage_rows<precision, true, In>(p, control, ptx::shared_address(ring), raw, group, first, last);
        } else {
          stage_rows<precision, false, In>(p, control, ptx::shared_address(ring), raw, group, first, last);
        }
      };
      if constexpr (Mode<precision>::narrow) {
        p.narrow ? stage(typename Mode<precision>::Operand{}) : stage(float{});
      } else {
        stage(float{});
      }
    } else if (p.pool_kernel != 0) {
      pool_rows<Out, filters>(p, control, buffers, split, first, last);
    } else if (p.nhwc) {
      store_tiles<precision, Out, filters, Pixels>(p, control, buffers, split, first, last);
    } else {
      store_tiles<precision, Out, filters, Planes>(p, control, buffers, split, first, last);
    }
  }
#endif
}

/// The kernel for `filters` output channels a block: 32 or 48, and where operands are not stored twice 64 or 96.
template <Precision precision, class Out>
Instance make_instance(int filters) {
  using T = Team<precision>;
  const auto of = [](auto* kernel) {
    return Instance{reinterpret_cast<const void*>(kernel), T::threads, T::computing, T::staging * T::raw_slots,
                    static_cast<int>(sizeof(SharedControl))};
  };
  if constexpr (!Mode<precision>::split) {
    if (filters == 96) return of(&first_layer_kernel<precision, Out, 96>);
    if (filters == 64) return of(&first_layer_kernel<precision, Out, 64>);
  }
  return filters == 48 ? of(&first_layer_kernel<precision, Out, 48>) : of(&first_layer_kernel<precision, Out, 32>);
}

template <Precision precision>
Instance make_instance(DType output, int filters) {
  using M = Mode<precision>;
  if constexpr (M::narrow) {
    if (output != DType::f32) return make_instance<precision, typename M::Operand>(filters);
  }
  return make_instance<precision, float>(filters);
}

}  // namespace lamina::cuda::first_layer
