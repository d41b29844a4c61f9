// c = alpha * a b by fp32 multiply-adds.
//
// A block of 256 threads owns a tile of BM x BN outputs, a thread TM x TN of them in registers; 16 terms at a time lie
// in shared memory, terms first (at most 9 KB), and the next 16 are on their way to registers meanwhile. Of many
// products of up to 32 x 32, which take the time that memory takes, 64 terms (18 KB). Chains of more than 128 terms are
// folded (tensor_core/chain.h).
//
// Preconditions: none; what lies outside of the matrices reads as 0.
// Source: Boehm, "How to optimize a CUDA matmul kernel for cuBLAS-like performance", 2022.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/matmul_batch.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/tensor_core/chain.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::MatMulExtents;

constexpr int threads = 256;

/// One thread's share of `depth` terms of `Lines` rows of a, or columns of b. Neighbours in a warp take neighbours in
/// memory: along the terms, or (`across`) along the lines.
template <int Lines, int depth, bool across>
struct Slab {
  static constexpr int pitch = Lines + 4;  // not a multiple of 32 banks, but of 16 bytes
  static constexpr int each = Lines * depth / threads;
  static_assert(Lines * depth % threads == 0, "every thread has as many");
  float values[each];

  __device__ static int line(int i) {
    const int e = static_cast<int>(threadIdx.x) + i * threads;
    return across ? e % Lines : e / depth;
  }
  __device__ static int term(int i) {
    const int e = static_cast<int>(threadIdx.x) + i * threads;
    return across ? e / Lines : e % depth;
  }
  __device__ void load(const float* from, std::int64_t lines, std::int64_t terms, std::int64_t line_step,
                       std::int64_t term_step) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      values[i] = line(i) < lines && term(i) < terms ? from[line(i) * line_step + term(i) * term_step] : 0.0f;
    }
  }
  __device__ void store(float (&to)[depth][pitch]) const {
#pragma unroll
    for (int i = 0; i < each; ++i) to[term(i)][line(i)] = values[i];
  }
};

/// `count` neighbours from shared memory, 16 bytes at a time if they are that many.
template <int count>
__device__ inline void load_shared(float (&values)[count], const float* from) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(from + i);
      values[i] = v.x, values[i + 1] = v.y, values[i + 2] = v.z, values[i + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = from[i];
  }
}

template <int BM, int BN, int TM, int TN, int depth, bool transpose_a, bool transpose_b>
__global__ void __launch_bounds__(threads, 2)
    matmul_kernel(const float* __restrict__ a_all,  // [batches, m, k], or [batches, k, m]
                  const float* __restrict__ b_all,  // [batches, k, n], or [batches, n, k]
                  float* __restrict__ c_all,        // [batches, m, n]
                  const __grid_constant__ MatMulExtents e) {
  static_assert(BM / TM * (BN / TN) == threads, "the threads are the tile");
  using SlabA = Slab<BM, depth, transpose_a>;
  using SlabB = Slab<BN, depth, !transpose_b>;
  __shared__ alignas(16) float a_shared[depth][SlabA::pitch];
  __shared__ alignas(16) float b_shared[depth][SlabB::pitch];
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t across = (e.n + BN - 1) / BN, tile_row = divided(blockIdx.x, across);
  const std::int64_t row = tile_row * BM, column = (blockIdx.x - tile_row * across) * BN;
  const int thread_row = static_cast<int>(threadIdx.x) / (BN / TN) * TM;
  const int thread_column = static_cast<int>(threadIdx.x) % (BN / TN) * TN;
  for (std::int64_t batch = blockIdx.y; batch < e.batches; batch += gridDim.y) {
    const auto at = operands(e, batch);
    const float* a = a_all + at.a + row * e.a_row;
    const float* b = b_all + at.b + column * e.b_column;
    SlabA a_next;
    SlabB b_next;
    a_next.load(a, e.m - row, e.k, e.a_row, e.a_term);
    b_next.load(b, e.n - column, e.k, e.b_column, e.b_term);
    float sum[TM][TN] = {}, chain[TM][TN] = {};
    int length = 0;
    for (std::int64_t k = 0; k < e.k; k += depth) {
      __syncthreads();  // everybody has read the last slabs
      a_next.store(a_shared);
      b_next.store(b_shared);
      __syncthreads();
      a += depth * e.a_term;
      b += depth * e.b_term;
      a_next.load(a, e.m - row, e.k - k - depth, e.a_row, e.a_term);
      b_next.load(b, e.n - column, e.k - k - depth, e.b_column, e.b_term);
#pragma unroll 8
      for (int t = 0; t < depth; ++t) {
        float x[TM], y[TN];
        load_shared(x, &a_shared[t][thread_row]);
        load_shared(y, &b_shared[t][thread_column]);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
          for (int j = 0; j < TN; ++j) chain[i][j] = fmaf(x[i], y[j], chain[i][j]);
        }
      }
      length += depth;
      if (length < max_chain && k + depth < e.k) continue;
      length = 0;
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
          sum[i][j] += chain[i][j];
          chain[i][j] = 0;
        }
      }
    }
    const auto alpha = static_cast<float>(e.alpha);
    float* const c = c_all + batch * e.m * e.n;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; ++j) {
        const std::int64_t r = row + thread_row + i, s = column + thread_column + j;
        if (r < e.m && s < e.n) c[r * e.n + s] = alpha * sum[i][j];
      }
    }
  }
}

template <int BM, int BN, int TM, int TN, int depth>
void launch(const MatMulExtents& e, const float* a, const float* b, float* c, Stream stream) {
  const std::int64_t tiles = detail::ceil_div<std::int64_t>(e.m, BM) * detail::ceil_div<std::int64_t>(e.n, BN);
  const dim3 grid(grid_for(tiles, 1), static_cast<unsigned>(std::min<std::int64_t>(e.batches, 65535)));
  const auto run = [&](auto kernel) { launch_kernel(kernel, {grid, dim3(threads)}, stream, a, b, c, e); };
  const bool ta = e.a_row == 1 && e.a_term != 1, tb = e.b_term == 1 && e.b_column != 1;
  if (ta) {
    run(tb ? matmul_kernel<BM, BN, TM, TN, depth, true, true> : matmul_kernel<BM, BN, TM, TN, depth, true, false>);
  } else {
    run(tb ? matmul_kernel<BM, BN, TM, TN, depth, false, true> : matmul_kernel<BM, BN, TM, TN, depth, false, false>);
  }
}

}  // namespace

bool takes_matmul(const MatMulProblem& problem, const Preparation& p) {
  return takes_matmul_any(problem, p) && p.input().format.dtype == DType::f32;
}

std::unique_ptr<Operator> prepare_matmul(const MatMulProblem& problem, const Preparation& p) {
  const MatMulExtents e = detail::matmul_extents(problem, p);
  const std::int64_t large =
      e.batches * detail::ceil_div<std::int64_t>(e.m, 64) * detail::ceil_div<std::int64_t>(e.n, 64);
  // Large tiles read less; small ones keep the GPU busy, and waste less on narrow matrices. All add in the same order.
  const bool many_small = e.m <= 32 && e.n <= 32 && e.batches >= 2 * p.device.multiprocessors;
  const auto run = many_small                 ? launch<32, 32, 2, 2, 64>
                   : e.m > 32 && large >= 128 ? launch<64, 64, 4, 4, 16>
                                              : launch<32, 64, 2, 4, 16>;
  return make_on_device(index(p), "multiply-adds", [=](Inputs inputs, Outputs outputs, const Execution& execution) {
    run(e, floats(inputs[0]), floats(inputs[1]), floats(outputs[0]), execution.stream);
  });
}

}  // namespace lamina::cuda
