#pragma once

// Fully connected layer of a few rows on Hopper: output [rows, out] = input [rows, in] * weight', limited by reading
// the weights once from memory.
//
// A block owns 64 or 128 outputs of all rows, or a cluster's blocks share such a tile, each with a piece of K. One
// thread tells the copy engine what to bring: for each step of K (128 bytes of every row) packed weights, one run of
// memory, and the same columns of the input. Consumers read both where they land:
//   16 bits, TF32: a warpgroup multiplies 64 outputs x n rows by wgmma; rows past the last are zeros.
//   f32: two teams of 128 threads take the steps in turn; a thread owns 4 outputs x n rows x 4 of a step's 32 terms.
// Every block sends its sums to their owners in the cluster (or itself) by stores that count themselves at the owner's
// barrier; the owner adds them in the order of the blocks: the same bits every run.
// The weights of the first steps are asked for before the block waits for the layer before it: they are nobody's
// result. Neighbours in time are neighbours in memory: all blocks sweep through the weights side by side.
// Shared memory: a ring of stages of (outputs + n) * 128 bytes, sums that land, barriers.
// Preconditions: compute capability 9.0; rows <= n; rows of the input are multiples of 16 bytes.

#include <type_traits>

#include "lamina/cuda/conv2d_device.cuh"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/linear_stream_arguments.h"
#include "lamina/cuda/nhwc_copy.cuh"
#include "lamina/cuda/nhwc_wgmma.cuh"
#include "lamina/cuda/overlap.cuh"
#include "lamina/cuda/sm90_wgmma.cuh"

namespace lamina::cuda::linear_stream {

using nhwc::Tf32;
using sm90::shared_address;

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, Tf32>, float, T>;

template <class T>
inline constexpr int step_terms = step_bytes / static_cast<int>(sizeof(Stored<T>));

/// How a block divides its tile; `groups` warpgroups, of which each has 64 outputs, or in f32 each other step.
template <class T, int groups, int n>
struct Shape {
  static constexpr bool products = !std::is_same_v<T, float>;  // by tensor cores
  static constexpr int consumers = groups * 128;
  static constexpr int outputs = products ? groups * block_outputs : block_outputs;
  static constexpr int weight_bytes = outputs * step_bytes;
  static constexpr int stage_bytes = weight_bytes + n * step_bytes;
  static constexpr int fragments = products ? n / 8 : 1;        // a thread's sums, four at a time
  static constexpr int finishers = products ? consumers : 128;  // threads that add up what was sent
  static constexpr int parts = products ? 1 : groups;           // of a sum, from each block
  static constexpr int fragment_bytes = parts * finishers * 16;
  static constexpr int resident = n <= 8 ? 1 : 2;  // blocks on a multiprocessor, see linear_stream.cpp
};

/// A stage of the ring, and how often it has come round.
struct Ring {
  int stages, stage, parity = 0;
  __device__ __forceinline__ void advance(int by = 1) {
    stage += by;
    if (stage >= stages) stage -= stages, parity ^= 1;
  }
};

/// The steps of K that a block takes.
struct Span {
  int first, count;
  __device__ Span(const Arguments& args, int rank) {
    const int each = args.steps / args.splits, more = args.steps % args.splits;
    first = rank * each + min(rank, more);
    count = each + (rank < more);
  }
};

/// What a block keeps in shared memory.
template <class S>
struct Shared {
  unsigned char *ring, *landing;
  std::uint64_t *full, *empty, *landed;  // by the copies, the consumers, the cluster's blocks
  int owned;                             // fragments of each block of the cluster

  __device__ Shared(unsigned char* base, const Arguments& args)
      : ring(base),
        landing(base + args.stages * S::stage_bytes),
        owned((S::fragments + args.splits - 1) / args.splits) {
    full = reinterpret_cast<std::uint64_t*>(landing + args.splits * owned * S::fragment_bytes);
    empty = full + most_stages;
    landed = empty + most_stages;
  }
  __device__ __forceinline__ int first(int rank) const { return rank * owned; }
  __device__ __forceinline__ int last(int rank) const { return min(first(rank) + owned, S::fragments); }
};

/// Weights are read once: what else is in L2, the convolutions' weights and all code, is worth more.
__device__ __forceinline__ std::uint64_t evict_first() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void load_weights(void* shared, const void* global, std::uint32_t bytes,
                                             std::uint64_t* barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

/// 128 bytes of columns from `column` on, of all rows of the tile.
__device__ __forceinline__ void load_input(void* shared, const CUtensorMap& map, int column, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(shared_address(shared)),
      "l"(&map), "r"(column), "r"(0), "r"(shared_address(barrier))
      : "memory");
}

/// The one thread that copies.
template <class T, class S>
struct Producer {
  const Arguments& args;
  const Shared<S>& shared;
  Span span;
  const unsigned char* source;  // of the first block of 64 outputs, at the step to come
  std::uint64_t policy;

  __device__ Producer(const Arguments& arguments, const Shared<S>& memory, int tile, int rank)
      : args(arguments), shared(memory), span(arguments, rank), policy(evict_first()) {
    source = static_cast<const unsigned char*>(args.weight) +
             (static_cast<std::size_t>(span.first) * static_cast<unsigned>(args.blocks) +
              static_cast<unsigned>(tile * (S::outputs / block_outputs))) *
                 block_bytes;
  }

  /// The next step's weights, into a stage that may now receive all its bytes.
  __device__ __forceinline__ void bring(int stage) {
    sm90::barrier_arrive_expect(shared.full + stage, S::stage_bytes);
    load_weights(shared.ring + stage * S::stage_bytes, source, S::weight_bytes, shared.full + stage, policy);
    source += static_cast<std::size_t>(args.blocks) * block_bytes;
  }

  /// As many steps' weights as the ring holds.
  __device__ __forceinline__ int ahead() {
    const int steps = min(args.stages, span.count);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) bring(step);
    return steps;
  }

  /// All the input, and the weights of the other steps.
  __device__ __forceinline__ void feed(const CUtensorMap& input, int ahead) {
    Ring ring{args.stages, 0};
    int column = span.first * step_terms<T>;
    for (int step = 0; step < span.count; ++step, column += step_terms<T>, ring.advance()) {
      if (step >= ahead) {
        sm90::barrier_wait(shared.empty + ring.stage, ring.parity ^ 1);
        bring(ring.stage);
      }
      load_input(shared.ring + ring.stage * S::stage_bytes + S::weight_bytes, input, column, shared.full + ring.stage);
    }
  }
};

/// A warpgroup's sums by tensor cores: 64 outputs x n rows, in the fragments of wgmma.
template <class T, class S, int n>
__device__ __forceinline__ void multiply(const Arguments& args, const Shared<S>& shared, int group, int steps,
                                         float (&d)[n / 2]) {
  const std::uint32_t base = shared_address(shared.ring);
  const bool speaks = threadIdx.x % 32 == 0;
  Ring ring{args.stages, 0};
  int previous = 0;
  for (int step = 0; step < steps; ++step, ring.advance()) {
    sm90::barrier_wait(shared.full + ring.stage, ring.parity);
    const std::uint32_t stage = base + static_cast<std::uint32_t>(ring.stage * S::stage_bytes);
    const std::uint64_t a = nhwc::descriptor(stage + static_cast<std::uint32_t>(group * block_bytes));
    const std::uint64_t b = nhwc::descriptor(stage + S::weight_bytes);
    sm90::wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // 32 bytes of K each; addresses in a descriptor count 16
      nhwc::Product<T, n>::issue(d, a + static_cast<unsigned>(2 * i), b + static_cast<unsigned>(2 * i),
                                 step > 0 || i > 0);
    }
    sm90::wgmma_commit();
    if (step > 0) {
      nhwc::wait_products<1>();
      if (speaks) sm90::barrier_arrive(shared.empty + previous);
    }
    previous = ring.stage;
  }
  nhwc::wait_products<0>();
  sm90::pin(d);
}

/// Sums over the lanes whose numbers differ in `distance`: each half of the rows stays with one of two lanes; one row
/// is summed in both.
template <int rows>
__device__ __forceinline__ void sum_over_lanes(const float (&v)[rows][4], int distance, float (&sum)[4]) {
  const bool upper = (threadIdx.x & static_cast<unsigned>(distance)) != 0;
  constexpr int half = rows > 1 ? rows / 2 : 1;
  float kept[half][4];
#pragma unroll
  for (int r = 0; r < half; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float mine = rows > 1 && upper ? v[r + rows / 2][i] : v[r][i];
      const float other = rows > 1 && !upper ? v[r + rows / 2][i] : v[r][i];
      kept[r][i] = mine + __shfl_xor_sync(0xffffffffu, other, distance);
    }
  }
  if (distance > 1) return sum_over_lanes<half>(kept, distance / 2, sum);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] = kept[0][i];
}

/// A team's sums by multiply-adds: thread (4 outputs, a 16-byte chunk of the step's terms) ends with 4 outputs of row
/// chunk * n / 8. No chain is longer than conv2d_device.cuh allows.
template <class S, int groups, int n>
__device__ __forceinline__ void multiply_f32(const Arguments& args, const Shared<S>& shared, int team, int steps,
                                             float (&d)[4]) {
  const int thread = static_cast<int>(threadIdx.x) % 128, chunk = thread % 8, first = thread / 8 * 4;
  float total[n][4] = {}, sum[n][4] = {};
  const auto fold = [&] {
#pragma unroll
    for (int r = 0; r < n; ++r) {
#pragma unroll
      for (int o = 0; o < 4; ++o) total[r][o] += sum[r][o], sum[r][o] = 0.0f;
    }
  };
  // A multiple of teams: each stage is always the same team's. One that waited for the other's next phase but one
  // could not tell it from the last.
  Ring ring{args.stages, 0};
  ring.advance(team);
  int chain = 0;
  for (int step = team; step < steps; step += groups, ring.advance(groups)) {
    sm90::barrier_wait(shared.full + ring.stage, ring.parity);
    const unsigned char* stage = shared.ring + ring.stage * S::stage_bytes;
    float4 w[4];
#pragma unroll
    for (int o = 0; o < 4; ++o) w[o] = *reinterpret_cast<const float4*>(stage + swizzled(first + o, chunk * 16));
#pragma unroll
    for (int r = 0; r < n; ++r) {
      const auto x = *reinterpret_cast<const float4*>(stage + S::weight_bytes + r * step_bytes + chunk * 16);
#pragma unroll
      for (int o = 0; o < 4; ++o) {
        sum[r][o] = fmaf(w[o].x, x.x, sum[r][o]);
        sum[r][o] = fmaf(w[o].y, x.y, sum[r][o]);
        sum[r][o] = fmaf(w[o].z, x.z, sum[r][o]);
        sum[r][o] = fmaf(w[o].w, x.w, sum[r][o]);
      }
    }
    sm90::barrier_arrive(shared.empty + ring.stage);
    if (++chain == longest_chain / 4) chain = 0, fold();
  }
  fold();
  sum_over_lanes<n>(total, 4, d);
}

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
  const int steps = Span(args, rank).count;
  float d[S::fragments * 4];
  if constexpr (S::products) {
    multiply<T, S, n>(args, shared, group, steps, d);
  } else {
    multiply_f32<S, groups, n>(args, shared, group, steps, d);
  }

  nhwc::cluster_wait();  // all blocks of the cluster expect what they will be sent
  const int finisher = S::products ? thread : thread % 128;
#pragma unroll
  for (int fragment = 0; fragment < S::fragments; ++fragment) {
    const auto owner = static_cast<std::uint32_t>(fragment / shared.owned);
    const int part = ((fragment % shared.owned) * args.splits + rank) * S::parts + (S::products ? 0 : group);
    nhwc::store_counted(
        nhwc::in_block(
            shared_address(shared.landing) + static_cast<std::uint32_t>((part * S::finishers + finisher) * 16), owner),
        {d[4 * fragment], d[4 * fragment + 1], d[4 * fragment + 2], d[4 * fragment + 3]},
        nhwc::in_block(shared_address(shared.landed), owner));
  }
  if (shared.first(rank) >= shared.last(rank) || thread >= S::finishers) return;

  // Of products: outputs o and o + 8 of two rows each; of f32: four outputs of a row.
  const int chunk = thread % 8;
  const int output = tile * S::outputs + (S::products ? thread / 32 * 16 + lane / 4 : thread / 8 * 4);
  float bias[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) bias[i] = __ldg(args.bias + output + (S::products ? i / 2 * 8 : i));
  nhwc::barrier_wait_cluster(shared.landed, 0);
  constexpr int lanes_alike = n < 8 ? 8 / n : 1;  // of f32: that hold the same sums
  const int count = args.splits * S::parts;
  for (int fragment = shared.first(rank); fragment < shared.last(rank); ++fragment) {
    const auto* part = reinterpret_cast<const float4*>(shared.landing) +
                       (fragment - shared.first(rank)) * count * S::finishers + thread;
    float4 sum = *part;
#pragma unroll 4
    for (int i = 1; i < count; ++i) {
      const float4 more = part[i * S::finishers];
      sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
    }
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
  const int thread = static_cast<int>(threadIdx.x), rank = static_cast<int>(nhwc::cluster_rank());
  const int tile = static_cast<int>(blockIdx.x) / args.splits;
  const bool copies = thread == S::consumers;
  Producer<T, S> producer(args, shared, tile, rank);
  int ahead = 0;
  if (copies) {
    for (int stage = 0; stage < args.stages; ++stage) {
      sm90::barrier_init(shared.full + stage, 1);
      // By a lane of each warp behind its warpgroup's products, or by all threads of the team that read the stage.
      sm90::barrier_init(shared.empty + stage, S::products ? groups * 4 : 128);
    }
    sm90::barrier_init(shared.landed, 1);
    sm90::barrier_init_fence();
    const int owned = shared.last(rank) - shared.first(rank);
    if (owned > 0) {
      sm90::barrier_arrive_expect(shared.landed, static_cast<std::uint32_t>(owned * args.splits * S::fragment_bytes));
    }
    ahead = producer.ahead();
    nhwc::prefetch_map(input);
  }
  __syncwarp();
  nhwc::cluster_arrive();
  __syncthreads();
  wait_for_predecessor();
  if (thread >= S::consumers) {
    if (copies) producer.feed(input, ahead);
    __syncwarp();
    nhwc::cluster_wait();
  } else {
    consume<T, groups, n>(args, shared, tile, rank);
  }
}

// wgmma exists for sm_90a and nothing else; linear_stream.cpp asks nhwc::has_code whether there is any.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool compiled = true;
#else
inline constexpr bool compiled = false;
#endif

template <class T, int groups, int n>
__global__ void __launch_bounds__(Shape<T, groups, n>::consumers + 32, Shape<T, groups, n>::resident)
    linear_stream_kernel(const __grid_constant__ Arguments args, const __grid_constant__ CUtensorMap input) {
  if constexpr (compiled) run<T, groups, n>(args, input);
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
