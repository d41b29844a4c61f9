// A cluster of blocks owns an image, each block an eighth of its pixels, of the hidden values and of the factors.
//
// A thread adds up 8 channels of every so many pixels; sums meet in the block, then across the cluster, where every
// block needs all means. A warp owns a hidden value, a thread a factor; both are exchanged across the cluster too. At
// last the block multiplies its pixels, which it reads again. All orders are those of the layer: no bit depends on the
// batch. Means, hidden values and factors are rounded as the activations that they would be.
// Shared memory: the parameters, which come while the predecessor ends; the threads' sums [groups, C]; the block's
// sums, all means, and all factors [C], which are exchanged in f32; hidden values, its own and all. Preconditions:
// Arguments filled in by squeeze_excite.cpp; compute capability 9.0.

#include <algorithm>

#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/squeeze_excite/squeeze_excite.h"

namespace lamina::cuda::squeeze_excite {
namespace {

/// Of f32 behind the parameters.
struct Memory {
  int parts, sums, means, own_hidden, hidden, own_factors, factors, count;
  __host__ __device__ explicit Memory(const Arguments& args)
      : parts(0),
        sums(threads * pack),
        means(sums + args.channels),
        own_hidden(means + args.channels),
        hidden(own_hidden + args.rows),
        own_factors(hidden + args.hidden),
        factors(own_factors + args.outs),
        count(factors + args.channels) {}
};

/// An f32 of another block of the cluster.
__device__ __forceinline__ float load_from(const float* own, int rank) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];"
               : "=f"(value)
               : "r"(ptx::in_block(ptx::shared_address(own), static_cast<std::uint32_t>(rank)))
               : "memory");
  return value;
}

template <class T>
__device__ __forceinline__ float finish_one(const Finish& finish, float sum) {
  float v[1] = {sum};
  const float nothing[1] = {};
  apply<T>(finish, v, nothing);
  return to_f32(from_f32<T>(v[0]));
}

template <class T>
__device__ __forceinline__ void run(const Arguments& args) {
  extern __shared__ __align__(16) unsigned char memory[];
  const ParametersOf offset(args.channels, args.hidden, args.rows, args.outs);
  const Memory place(args);
  auto* const floats = reinterpret_cast<float*>(memory + offset.bytes);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int rank = static_cast<int>(ptx::cluster_rank());
  const std::int64_t image = blockIdx.x / blocks;
  {
    const unsigned char* from = args.parameters + static_cast<std::int64_t>(rank) * offset.bytes;
    for (int i = thread * 16; i < offset.bytes; i += threads * 16) {
      ptx::copy_async<16>(ptx::shared_address(memory) + static_cast<std::uint32_t>(i), from + i);
    }
    ptx::copy_async_commit();
  }
  const int packs = args.channels / pack, groups = threads / packs;
  const int group = thread / packs, mine = thread - group * packs;
  const int first = static_cast<int>(static_cast<std::int64_t>(args.pixels) * rank / blocks);
  const int last = static_cast<int>(static_cast<std::int64_t>(args.pixels) * (rank + 1) / blocks);
  const auto* input = static_cast<const T*>(args.input) + image * args.pixels * args.channels + mine * pack;
  wait_for_predecessor();

  float sum[pack] = {};
  if (group < groups) {
#pragma unroll 4
    for (int pixel = first + group; pixel < last; pixel += groups) {
      const auto values = *reinterpret_cast<const Pack<T>*>(input + static_cast<std::int64_t>(pixel) * args.channels);
#pragma unroll
      for (int j = 0; j < pack; ++j) sum[j] += to_f32(values.values[j]);
    }
#pragma unroll
    for (int j = 0; j < pack; ++j) floats[place.parts + group * args.channels + mine * pack + j] = sum[j];
  }
  ptx::copy_async_wait<0>();
  __syncthreads();
  for (int c = thread; c < args.channels; c += threads) {
    float total = 0.0f;
    for (int g = 0; g < groups; ++g) total += floats[place.parts + g * args.channels + c];
    floats[place.sums + c] = total;
  }
  ptx::cluster_sync();
  const auto pixels = static_cast<float>(args.pixels);
  for (int c = thread; c < args.channels; c += threads) {
    float total = 0.0f;
#pragma unroll
    for (int r = 0; r < blocks; ++r) total += load_from(floats + place.sums + c, r);
    floats[place.means + c] = to_f32(from_f32<T>(total / pixels));
  }
  __syncthreads();

  const auto* biases = reinterpret_cast<const float*>(memory + offset.bias);
  for (int row = warp; row < args.rows; row += warps) {
    const auto* weights = reinterpret_cast<const T*>(memory) + row * args.channels;
    float chain = 0.0f;
    for (int c = lane * 2; c < args.channels; c += 64) {
      const auto w = *reinterpret_cast<const Pack<T, 2>*>(weights + c);
      chain = fmaf(to_f32(w.values[0]), floats[place.means + c], chain);
      chain = fmaf(to_f32(w.values[1]), floats[place.means + c + 1], chain);
    }
#pragma unroll
    for (int other = 16; other > 0; other /= 2) chain += __shfl_xor_sync(0xFFFFFFFFu, chain, other);
    if (lane == 0) floats[place.own_hidden + row] = finish_one<T>(args.squeeze, chain + biases[row]);
  }
  ptx::cluster_sync();
  for (int s = thread; s < args.hidden; s += threads) {
    const int r = s / args.rows;
    floats[place.hidden + s] = load_from(floats + place.own_hidden + s - r * args.rows, r);
  }
  __syncthreads();
  const auto* second = reinterpret_cast<const T*>(memory + offset.second);
  const auto* second_biases = reinterpret_cast<const float*>(memory + offset.second_bias);
  for (int o = thread; o < args.outs; o += threads) {
    float chain = 0.0f;
    for (int s = 0; s < args.hidden; ++s) {
      chain = fmaf(to_f32(second[s * args.outs + o]), floats[place.hidden + s], chain);
    }
    floats[place.own_factors + o] = finish_one<T>(args.excite, chain + second_biases[o]);
  }
  ptx::cluster_sync();
  for (int c = thread; c < args.channels; c += threads) {
    const int r = c / args.outs;
    floats[place.factors + c] = load_from(floats + place.own_factors + c - r * args.outs, r);
  }
  ptx::cluster_arrive();  // nobody reads this block's memory after all have arrived
  __syncthreads();
  if (group < groups) {
    float factor[pack];
#pragma unroll
    for (int j = 0; j < pack; ++j) factor[j] = floats[place.factors + mine * pack + j];
    auto* output = static_cast<T*>(args.output) + image * args.pixels * args.channels + mine * pack;
#pragma unroll 4
    for (int pixel = first + group; pixel < last; pixel += groups) {
      const std::int64_t at = static_cast<std::int64_t>(pixel) * args.channels;
      auto values = *reinterpret_cast<const Pack<T>*>(input + at);
#pragma unroll
      for (int j = 0; j < pack; ++j) values.values[j] = from_f32<T>(to_f32(values.values[j]) * factor[j]);
      *reinterpret_cast<Pack<T>*>(output + at) = values;
    }
  }
  ptx::cluster_wait();
}

template <class T>
__global__ void __launch_bounds__(threads, 1) squeeze_excite_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 900
  let_successor_start();
  run<T>(args);
#endif
}

}  // namespace

int shared_bytes(const Arguments& args) {
  return ParametersOf(args.channels, args.hidden, args.rows, args.outs).bytes + Memory(args).count * 4;
}

const void* kernel(DType type) {
  return type == DType::f16 ? reinterpret_cast<const void*>(&squeeze_excite_kernel<__half>)
                            : reinterpret_cast<const void*>(&squeeze_excite_kernel<__nv_bfloat16>);
}

}  // namespace lamina::cuda::squeeze_excite
