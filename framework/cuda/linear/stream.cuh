#pragma once

// Fully connected layer of a few rows on Hopper: output [rows, out] = input [rows, in] * weight', limited by reading
// the weights once from memory.
//
// A block owns 64 or 128 outputs of all rows, or a CTA cluster's blocks share such a tile, each with a piece of K
// (split-K). One thread issues TMA copies: for each step of K (128 bytes of every row) packed weights, one run of
// memory, and the same columns of the input. Consumers read both where they land:
//   16 bits, TF32: a warpgroup multiplies 64 outputs x n rows by wgmma; rows past the last are zeros.
//   f32: two teams of 128 threads take the steps in turn; a thread owns 4 outputs x n rows x 4 of a step's 32 terms.
// Every block sends its sums to their owners in the cluster by stores that count themselves at the owner's barrier; the
// owner adds them in the order of the blocks: the same bits every run. A block alone puts them into its own memory.
// The weights of the first steps are asked for before the block waits for the layer before it: they are nobody's
// result. Neighbours in time are neighbours in memory: all blocks sweep through the weights side by side.
// Shared memory: a ring of stages of (outputs + n) * 128 bytes, sums that land, barriers.
// Preconditions: compute capability 9.0; rows <= n; rows of the input are multiples of 16 bytes.

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/linear/stream_sums.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::linear_stream {

/// One output by plain multiply-adds in short chains: an accumulator of the tensor cores that overflows may turn to
/// NaN instead of Inf.
template <class T>
__device__ __noinline__ float exact_sum(const Arguments& args, int output, int row) {
  constexpr int chunk = 16 / static_cast<int>(sizeof(Stored<T>));
  const auto* weight =
      static_cast<const unsigned char*>(args.weight) + static_cast<std::size_t>(output / block_outputs) * block_bytes;
  const auto* x =
      static_cast<const Stored<T>*>(args.input) + static_cast<std::size_t>(row) * static_cast<unsigned>(args.in);
  const auto value = [](Stored<T> v) {
    if constexpr (std::is_same_v<T, Tf32>) {
      return __uint_as_float(round_to_tf32(__float_as_uint(v)));
    } else {
      return static_cast<float>(v);
    }
  };
  float sum = 0.0f;
#pragma unroll 1
  for (int first = 0; first < args.in; first += step_terms<T>) {
    float terms = 0.0f;
#pragma unroll 1
    for (int i = 0; i < step_terms<T> && first + i < args.in; ++i) {
      const auto* w = reinterpret_cast<const Stored<T>*>(weight + swizzled(output % block_outputs, i / chunk * 16));
      terms = fmaf(value(w[i % chunk]), value(x[first + i]), terms);
    }
    sum += terms;
    weight += static_cast<std::size_t>(args.blocks) * block_bytes;
  }
  return sum;
}

template <class T>
__device__ __forceinline__ void finish(const Arguments& args, float sum, float bias, int output, int row) {
  if (output >= args.out || row >= args.rows) return;
  if constexpr (std::is_same_v<T, Tf32> || std::is_same_v<T, __nv_bfloat16>) {
    if (!(fabsf(sum) < __builtin_inff())) sum = exact_sum<T>(args, output, row);
  }
  const float y = activate(sum + bias, args.relu);
  const std::size_t index =
      static_cast<std::size_t>(row) * static_cast<unsigned>(args.out) + static_cast<unsigned>(output);
  if (args.output_type == DType::f32) {
    static_cast<float*>(args.output)[index] = y;
  } else if constexpr (sizeof(Stored<T>) == 2) {
    static_cast<T*>(args.output)[index] = from_f32<T>(y);
  }
}

template <class T, int groups, int n>
__device__ __forceinline__ void consume(const Arguments& args, const Shared<Shape<T, groups, n>>& shared, int tile,
                                        int rank) {
  using S = Shape<T, groups, n>;
  const int thread = static_cast<int>(threadIdx.x), group = thread / 128, lane = thread % 32;
  const int steps = KPiece(args.steps, args.splits, rank).count();
  float d[S::fragments * 4];
  if constexpr (S::products) {
    multiply<T, S, n>(args, shared, group, steps, d);
  } else {
    multiply_f32<S, groups, n>(args, shared, group, steps, d);
  }

  const bool alone = args.splits == 1;
  if (!alone) ptx::cluster_wait();  // all blocks of the cluster expect what they will be sent
  const int finisher = S::products ? thread : thread % 128;
#pragma unroll
  for (int fragment = 0; fragment < S::fragments; ++fragment) {
    const auto owner = static_cast<std::uint32_t>(fragment / shared.owned);
    const int part = ((fragment % shared.owned) * args.splits + rank) * S::parts + (S::products ? 0 : group);
    const float4 four = {d[4 * fragment], d[4 * fragment + 1], d[4 * fragment + 2], d[4 * fragment + 3]};
    unsigned char* place = shared.landing + (part * S::finishers + finisher) * 16;
    if (alone) {
      *reinterpret_cast<float4*>(place) = four;
    } else {
      send_sums(ptx::shared_address(place), four, shared.landed, owner);
    }
  }
  if (alone) ptx::sync_threads<S::consumers>(1);
  const OwnFragments own(S::fragments, shared.owned, rank);
  if (own.first >= own.last || thread >= S::finishers) return;

  // Of products: outputs o and o + 8 of two rows each; of f32: four outputs of a row.
  const int chunk = thread % 8;
  const int output = tile * S::outputs + (S::products ? thread / 32 * 16 + lane / 4 : thread / 8 * 4);
  float bias[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) bias[i] = __ldg(args.bias + output + (S::products ? i / 2 * 8 : i));
  if (!alone) ptx::barrier_wait_cluster(shared.landed, 0);
  constexpr int lanes_alike = n < 8 ? 8 / n : 1;  // of f32: that hold the same sums
  const int count = args.splits * S::parts;
  for (int fragment = own.first; fragment < own.last; ++fragment) {
    const auto* part =
        reinterpret_cast<const float4*>(shared.landing) + (fragment - own.first) * count * S::finishers + thread;
    const float4 sum = add_parts(part, count, S::finishers);
    const float y[4] = {sum.x, sum.y, sum.z, sum.w};
    if (!S::products && chunk % lanes_alike != 0) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (S::products) {
        finish<T>(args, y[i], bias[i], output + i / 2 * 8, fragment * 8 + lane % 4 * 2 + i % 2);
      } else {
        finish<T>(args, y[i], bias[i], output + i, chunk * n / 8);
      }
    }
  }
}

template <class T, int groups, int n>
__device__ __forceinline__ void run(const Arguments& args, const CUtensorMap& input) {
  using S = Shape<T, groups, n>;
  extern __shared__ __align__(1024) unsigned char memory[];
  let_successor_start();
  const Shared<S> shared(memory, args);
  const int thread = static_cast<int>(threadIdx.x), rank = static_cast<int>(ptx::cluster_rank());
  const int tile = static_cast<int>(blockIdx.x) / args.splits;
  const bool copies = thread == S::consumers;
  Producer<T, S> producer(args, shared, tile, rank);
  int ahead = 0;
  if (copies) {
    for (int stage = 0; stage < args.stages; ++stage) {
      ptx::barrier_init(shared.full + stage, 1);
      // By a lane of each warp behind its warpgroup's products, or by all threads of the team that read the stage.
      ptx::barrier_init(shared.empty + stage, S::products ? groups * 4 : 128);
    }
    ptx::barrier_init(shared.landed, 1);
    ptx::barrier_init_fence();
    const OwnFragments own(S::fragments, shared.owned, rank);
    const int owned = own.last - own.first;
    if (args.splits > 1 && owned > 0) {
      ptx::barrier_arrive_expect(shared.landed, static_cast<std::uint32_t>(owned * args.splits * S::fragment_bytes));
    }
    ahead = producer.ahead();
    ptx::prefetch_map(input);
  }
  __syncwarp();
  if (args.splits > 1) ptx::cluster_arrive();
  __syncthreads();
  wait_for_predecessor();
  if (thread >= S::consumers) {
    if (copies) producer.feed(input, ahead);
    __syncwarp();
    if (args.splits > 1) ptx::cluster_wait();
  } else {
    consume<T, groups, n>(args, shared, tile, rank);
  }
}

template <class T, int groups, int n>
__global__ void __launch_bounds__(Shape<T, groups, n>::consumers + 32, Shape<T, groups, n>::resident)
    linear_stream_kernel(const __grid_constant__ Arguments args, const __grid_constant__ CUtensorMap input) {
  if constexpr (ptx::wgmma_compiled) {
    run<T, groups, n>(args, input);
  } else {
    __trap();  // never launched: DeviceDescription::wgmma
  }
}

template <class T, int groups, int n>
Tile make_tile() {
  using S = Shape<T, groups, n>;
  return {.outputs = S::outputs,
          .rows = n,
          .threads = S::consumers + 32,
          .stage_bytes = S::stage_bytes,
          .fragments = S::fragments,
          .fragment_bytes = S::fragment_bytes,
          .teams = S::parts,
          .resident = S::resident,
          .swizzled = S::products,
          .kernel = reinterpret_cast<const void*>(&linear_stream_kernel<T, groups, n>)};
}

template <class T>
std::vector<Tile> make_tiles() {
  if constexpr (Shape<T, 1, 8>::products) {
    return {make_tile<T, 1, 8>(), make_tile<T, 1, 16>(), make_tile<T, 2, 16>(), make_tile<T, 1, 32>(),
            make_tile<T, 2, 32>()};
  } else {
    return {make_tile<T, 2, 1>(), make_tile<T, 2, 2>(), make_tile<T, 2, 4>(), make_tile<T, 2, 8>()};
  }
}

}  // namespace lamina::cuda::linear_stream
