#pragma once

// Convolution between channels-last tensors on Hopper: output [filters, pixels] = weight [filters, K] * windows
// [K, pixels], K = channels * taps, with neither operand ever passing through a thread.
//
// A block owns groups * 64 filters x n output pixels (which may span images) at a time and goes on to another such tile
// when it is done. One thread issues TMA copies: for each step of K (one tap of 128 bytes of channels) a column of n
// windows, whose padding TMA's im2col mode fills with zeros, and packed weights. `groups` warpgroups multiply 64
// filters x n pixels each, sums in registers.
// Two or four blocks of a CTA cluster may hold different pixels and bring the weights for each other (multicast), or a
// cluster's blocks share one tile, each with a piece of K (split-K, reduce.cuh).
// Shared memory: a ring of stages of (64 * groups + n) * 128 bytes, store buffers, barriers;
// docs/inside/channels_last.md draws it. What is added to the sums comes by TMA too, into the store buffers, up to two
// tiles ahead of their sums. Or a second product is: its steps follow those of the first. `beside` is the map of
// either. Preconditions: compute capability 9.0; Arguments and maps filled in by channels_last.cpp. Sources: PTX ISA
// for the instructions; persistent warp-specialised products and weight multicast as in CUTLASS.

#include "lamina/cuda/conv2d/channels_last/codes.cuh"
#include "lamina/cuda/conv2d/channels_last/produce.cuh"
#include "lamina/cuda/conv2d/channels_last/reduce.cuh"
#include "lamina/cuda/conv2d/channels_last/ring.cuh"
#include "lamina/cuda/conv2d/channels_last/scaled.cuh"
#include "lamina/cuda/conv2d/channels_last/split.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::channels_last {

template <class T, int groups, int n, int chunk>
__device__ __forceinline__ void consume(const Arguments& args, const CUtensorMap& output, Shared<T, groups, n> shared,
                                        int rank) {
  const int group = groups == 1 ? 0 : static_cast<int>(threadIdx.x) / 128;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const Span span(args, rank);
  // Copies wait by themselves, but what is added may be read here.
  if (roomy<groups, n> && args.adds) wait_for_predecessor(args.neighbours);
  Store<T, roomy<groups, n>, may_add_last<groups, n>, n, chunk, Run> store{args, output, shared, group};
  Ring ring{args.stages}, slots{args.stages};
  for (Walk walk(args, rank); walk.more(); walk.next()) {
    Piece<Run> piece{group, (walk.filter_tile() * groups + group) * block_filters, {walk.pixel_tile() * n}};
    const float* bias = args.bias + piece.first_filter + warp * 16 + lane / 4;
    piece.bias[0] = __ldg(bias), piece.bias[1] = __ldg(bias + 8);
    if constexpr (ranged<T>) {
      const FilterRange* range = args.ranges + (bias - args.bias);
      piece.range[0] = range[0], piece.range[1] = range[8];
    }
    float d[n / 2];
    if constexpr (split<T>) {
      SplitProducts<groups, n>{args, shared, group}.run(ring, span.count, d);
    } else if constexpr (scaled<T>) {
      ScaledProducts<T, groups, n>{args, shared, group, ring, slots}.run(span, d);
    } else {
      multiply<T>(args, shared, ring, group, span.count, d);
    }
    if (args.splits == 1) {
      if constexpr (ranged<T>) {
#pragma unroll
        for (int i = 0; i < n / 2; ++i) d[i] *= piece.range[i / 2 % 2].scale;
      }
      store.run(piece, d);
    } else {
      meet(args);
      send_sums<T, groups, n>(args, shared, rank, d);
      finish_sums<T, groups, n>(args, shared, rank, piece);
    }
  }
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<0>();
}

/// Small tiles of codes, of which two are on a multiprocessor, so that one is multiplied while the other is finished:
/// but two warps feed each, which leaves registers for all as they are.
template <class T, int groups, int n>
inline constexpr bool in_turn = std::is_same_v<T, Codes>&& groups* n <= 192;

/// Small tiles leave room for a block of the next kernel, which then has its weights when this one is done.
template <class T, int groups, int n>
inline constexpr int resident = in_turn<T, groups, n> || (groups == 1 && !split<T>) ? 2 : 1;

/// That feed those that multiply.
template <class T, int groups, int n>
inline constexpr int helper_threads = in_turn<T, groups, n> ? 64
                                      : split<T>            ? 256
                                                            : 128;

template <class T, int groups, int n, int chunk>
__device__ __forceinline__ void convolve(const Arguments& args, const CUtensorMap& input, const CUtensorMap& output,
                                         const CUtensorMap& beside) {
  extern __shared__ __align__(1024) unsigned char memory[];
  // What the consumers take is what the producer's warpgroup gives back: more would wait for ever.
  constexpr int helpers = split<T> ? 2 : 1;
  // Registers for all as they are.
  constexpr bool ample = in_turn<T, groups, n> || (groups + helpers <= 2 && !scaled<T>);
  constexpr int at_launch = 65536 / ((groups + helpers) * 128 * (scaled<T> ? resident<T, groups, n> : 1)) / 8 * 8;
  constexpr int helper_registers = groups == 4 ? 64 : groups == 3 || split<T> || scaled<T> ? 56 : 72;
  constexpr int taken = at_launch + helpers * (at_launch - helper_registers) / groups / 8 * 8;
  constexpr int consumer_registers = taken < 240 ? taken : 240;
  let_successor_start(args.neighbours);
  const Shared<T, groups, n> shared(memory, args, chunk * step_bytes);
  const int cluster = args.multicast * args.splits;
  const int rank = cluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
  const int thread = static_cast<int>(threadIdx.x);

  int ahead = 0;
  if (thread == groups * 128) {
    for (int stage = 0; stage < args.stages; ++stage) {
      ptx::barrier_init(shared.full + stage, 1 + (scaled<T> ? gathering_threads : 0));
      ptx::barrier_init(shared.empty + stage, releases<T, groups>(args));
      if constexpr (split<T>) ptx::barrier_init(shared.low_words + stage, 128);
    }
    ptx::barrier_init(shared.landed, 1);
    if constexpr (may_add<T, groups, n>) {
      for (int i = 0; args.adds && i < 2 * groups << args.log2_buffers; ++i) ptx::barrier_init(shared.added + i, 1);
    }
    ptx::barrier_init_fence();
    if (args.splits > 1) expect_sums<T, groups, n>(args, shared, rank);
    if (args.multicast == 1) ahead = load_ahead<T, groups, n>(args, shared, rank);
    ptx::prefetch_map(input);
    if (args.splits == 1 && (!std::is_same_v<T, Codes> || args.boxed)) ptx::prefetch_map(output);
    if (may_add<T, groups, n> && args.adds) ptx::prefetch_map(beside);
  }
  __syncwarp();
  if (cluster > 1) ptx::cluster_arrive();
  if (args.multicast > 1) {
    ptx::cluster_wait();  // the others' barriers count what this block brings them
  } else {
    __syncthreads();
  }

  if (thread >= groups * 128) {
    if constexpr (!ample) ptx::give_registers_back<helper_registers>();
    if (thread == groups * 128) {
      if (args.multicast > 1) ahead = load_ahead<T, groups, n>(args, shared, rank);
      produce<T, groups, n>(args, input, beside, shared, rank, ahead);
    }
    if constexpr (split<T>) {
      if (thread >= (groups + 1) * 128) make_low_words<groups, n>(args, shared, rank);
    }
    if constexpr (scaled<T>) {
      if (thread >= (groups + 1) * 128 - gathering_threads) gather_scales<T, groups, n>(args, shared, rank);
    }
    if constexpr (may_add<T, groups, n>) {
      if (args.adds && args.splits == 1 && thread == groups * 128 + 32) {
        if constexpr (std::is_same_v<T, Codes>) {
          ptx::barrier_arrive_expect(shared.landed, eight_bits::sums_bytes);
          ptx::bulk_load(shared.table, args.sums, eight_bits::sums_bytes, shared.landed);
        }
        bring_added<T, groups, n, chunk>(args, beside, shared, rank);
      }
    }
    __syncwarp();
    if (args.splits > 1) meet(args);
    end_beside(args.neighbours);
  } else {
    if constexpr (!ample) ptx::take_registers<consumer_registers>();
    if constexpr (std::is_same_v<T, Codes>) {
      consume_codes<groups, n, 2 * chunk>(args, output, shared, rank);
    } else {
      consume<T, groups, n, chunk>(args, output, shared, rank);
    }
  }
  // Until here a block may write to another's shared memory, or arrive at its barriers.
  if (args.multicast > 1) ptx::cluster_sync();
}

template <class T, int groups, int n, int chunk>
__global__ void __launch_bounds__(groups * 128 + helper_threads<T, groups, n>, resident<T, groups, n>)
    channels_last_kernel(const __grid_constant__ Arguments args, const __grid_constant__ CUtensorMap input,
                         const __grid_constant__ CUtensorMap output, const __grid_constant__ CUtensorMap beside) {
  if constexpr (ptx::wgmma_compiled) {
    convolve<T, groups, n, chunk>(args, input, output, beside);
  } else {
    __trap();  // never launched: DeviceDescription::wgmma
  }
}

template <class T, int groups, int n>
Tile make_tile() {
  constexpr bool codes = std::is_same_v<T, Codes>;
  constexpr int chunk = codes && n % 64 != 0 ? n / 2 : n % 32 == 0 ? 32 : n == 240 ? 80 : n == 48 ? 48 : 16;
  return {.operand = operand_of<T>,
          .groups = groups,
          .pixels = n,
          .helpers = helper_threads<T, groups, n>,
          .roomy = may_add<T, groups, n>,
          .adds_last = may_add_last<groups, n>,
          .resident = resident<T, groups, n>,
          .stage_bytes = Shared<T, groups, n>::stage_bytes,
          .store_pixels = chunk,
          .kernel = reinterpret_cast<const void*>(&channels_last_kernel<T, groups, n, chunk>)};
}

/// Tiles that between them leave few multiprocessors idle; the 16-bit types and TF32 share the list.
template <class T>
std::vector<Tile> make_tiles() {
  return {make_tile<T, 1, 48>(),  make_tile<T, 1, 64>(),  make_tile<T, 1, 80>(),  make_tile<T, 1, 96>(),
          make_tile<T, 1, 128>(), make_tile<T, 2, 64>(),  make_tile<T, 2, 96>(),  make_tile<T, 2, 128>(),
          make_tile<T, 2, 160>(), make_tile<T, 2, 192>(), make_tile<T, 2, 224>(), make_tile<T, 2, 256>(),
          make_tile<T, 3, 96>(),  make_tile<T, 3, 160>(), make_tile<T, 3, 192>(), make_tile<T, 3, 240>(),
          make_tile<T, 4, 112>(), make_tile<T, 4, 128>()};
}

/// Those of scaled operands, which need registers for a chain beside the sums.
template <class T>
std::vector<Tile> make_scaled_tiles() {
  return {make_tile<T, 1, 64>(),  make_tile<T, 1, 128>(), make_tile<T, 2, 64>(),  make_tile<T, 2, 96>(),
          make_tile<T, 2, 112>(), make_tile<T, 2, 128>(), make_tile<T, 2, 192>(), make_tile<T, 3, 64>(),
          make_tile<T, 3, 96>(),  make_tile<T, 3, 112>()};
}

template <class T>
std::vector<Tile> make_split_tiles() {
  return {make_tile<T, 1, 64>(), make_tile<T, 1, 96>(), make_tile<T, 2, 64>(), make_tile<T, 2, 96>(),
          make_tile<T, 2, 128>()};
}

template <class T>
std::vector<Tile> make_code_tiles() {
  return {make_tile<T, 1, 64>(), make_tile<T, 1, 96>(),  make_tile<T, 1, 128>(), make_tile<T, 2, 64>(),
          make_tile<T, 2, 96>(), make_tile<T, 2, 128>(), make_tile<T, 2, 192>(), make_tile<T, 2, 256>(),
          make_tile<T, 3, 96>(), make_tile<T, 3, 192>(), make_tile<T, 4, 64>(),  make_tile<T, 4, 128>(),
          make_tile<T, 1, 192>()};
}

}  // namespace lamina::cuda::channels_last
