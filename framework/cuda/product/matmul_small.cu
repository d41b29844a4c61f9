// c = alpha * a b of many small matrices in f32, as linear attention has them: limited by reading each operand once.
//
// Up to 32 rows and columns: a block has a whole product. 64 terms of all rows and columns lie in shared memory at a
// time (17 KB); a thread has 2 x 4 outputs, and threads that these leave over share out the terms and meet there.
// Up to 32 rows and terms, columns innermost: a lies in shared memory (4 KB), and a thread reads a column once.
// Up to 32 columns and terms: b lies in shared memory, and a thread has a row, which it reads and writes there with its
// neighbours (17 KB).
//
// No chain is longer than 64 terms. Preconditions: what takes_matmul_small says.

#include <algorithm>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/matmul_batch.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::MatMulExtents;

constexpr int threads = 128, most = 32, depth = 64;
constexpr int tile_rows = 2, tile_columns = 4, tile = tile_rows * tile_columns;

using Slab = float[most][depth + 1];

/// Terms of rows of a, or of columns of b: neighbours in a warp take neighbours in memory.
__device__ inline void load(Slab& to, const float* from, int lines, std::int64_t terms, std::int64_t line_step,
                            std::int64_t term_step) {
  const bool along_terms = term_step == 1;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < most * depth; i += threads) {
    const int line = along_terms ? i / depth : i % most, term = along_terms ? i % depth : i / most;
    if (line < lines) to[line][term] = term < terms ? from[line * line_step + term * term_step] : 0.0f;
  }
}

__global__ void __launch_bounds__(threads)
    matmul_small_kernel(const float* __restrict__ a_all, const float* __restrict__ b_all, float* __restrict__ c,
                        const __grid_constant__ MatMulExtents e) {
  __shared__ Slab a, b;
  __shared__ float parts[threads * tile];
  let_successor_start();
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x), m = static_cast<int>(e.m), n = static_cast<int>(e.n);
  const int across = (n + tile_columns - 1) / tile_columns, tiles = (m + tile_rows - 1) / tile_rows * across;
  const int groups = threads / tiles, group = thread / tiles, mine = thread % tiles;
  const int row = mine / across * tile_rows, column = mine % across * tile_columns;
  for (std::int64_t batch = blockIdx.x; batch < e.batches; batch += gridDim.x) {
    const auto at = operands(e, batch);
    float sum[tile_rows][tile_columns] = {};
    for (std::int64_t k = 0; k < e.k; k += depth) {
      load(a, a_all + at.a + k * e.a_term, m, e.k - k, e.a_row, e.a_term);
      load(b, b_all + at.b + k * e.b_term, n, e.k - k, e.b_column, e.b_term);
      __syncthreads();
      float chain[tile_rows][tile_columns] = {};
      for (int t = group; t < depth && group < groups; t += groups) {
#pragma unroll
        for (int i = 0; i < tile_rows; ++i) {
#pragma unroll
          for (int j = 0; j < tile_columns; ++j) chain[i][j] = fmaf(a[row + i][t], b[column + j][t], chain[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < tile_rows; ++i) {
#pragma unroll
        for (int j = 0; j < tile_columns; ++j) sum[i][j] += chain[i][j];
      }
      __syncthreads();  // before the next terms
    }
#pragma unroll
    for (int i = 0; i < tile; ++i) parts[thread * tile + i] = sum[i / tile_columns][i % tile_columns];
    __syncthreads();
    for (int i = thread; i < m * n; i += threads) {
      const int r = i / n, s = i % n;
      const int from =
          (r / tile_rows * across + s / tile_columns) * tile + r % tile_rows * tile_columns + s % tile_columns;
      float total = 0;
      for (int g = 0; g < groups; ++g) total += parts[from + g * tiles * tile];
      c[batch * m * n + i] = static_cast<float>(e.alpha) * total;
    }
    __syncthreads();  // before the next product's parts
  }
}

/// `terms`: as many as a thread has of its column, those beyond e.k being 0.
template <int terms>
__global__ void __launch_bounds__(threads)
    matmul_spread_kernel(const float* __restrict__ a_all, const float* __restrict__ b_all, float* __restrict__ c,
                         const __grid_constant__ MatMulExtents e) {
  __shared__ alignas(16) float a[most][terms];
  let_successor_start();
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t column = std::int64_t{blockIdx.x} * threads + thread;
  for (std::int64_t batch = blockIdx.y; batch < e.batches; batch += gridDim.y) {
    const auto at = operands(e, batch);
    float y[terms];
#pragma unroll
    for (int t = 0; t < terms; ++t) {
      y[t] = t < e.k && column < e.n ? b_all[at.b + t * e.b_term + column] : 0.0f;
    }
    for (int i = thread; i < static_cast<int>(e.m) * terms; i += threads) {
      const int row = i / terms, t = i % terms;
      a[row][t] = t < e.k ? a_all[at.a + row * e.a_row + t * e.a_term] : 0.0f;
    }
    __syncthreads();
    for (int row = 0; row < static_cast<int>(e.m); ++row) {
      float sum = 0;
#pragma unroll
      for (int t = 0; t < terms; t += 4) {
        const float4 x = *reinterpret_cast<const float4*>(&a[row][t]);
        sum = fmaf(x.w, y[t + 3], fmaf(x.z, y[t + 2], fmaf(x.y, y[t + 1], fmaf(x.x, y[t], sum))));
      }
      if (column < e.n) c[(batch * e.m + row) * e.n + column] = static_cast<float>(e.alpha) * sum;
    }
    __syncthreads();  // before the next product's rows
  }
}

template <int terms>
__global__ void __launch_bounds__(threads)
    matmul_of_rows_kernel(const float* __restrict__ a_all, const float* __restrict__ b_all, float* __restrict__ c,
                          const __grid_constant__ MatMulExtents e) {
  __shared__ alignas(16) float b[most][terms];
  __shared__ float rows[threads * (most + 1)];  // of a, and then of c
  let_successor_start();
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x), k = static_cast<int>(e.k), n = static_cast<int>(e.n);
  const std::int64_t first = std::int64_t{blockIdx.x} * threads;
  const int count = static_cast<int>(e.m - first < threads ? e.m - first : threads);
  const int a_pitch = k | 1, c_pitch = n | 1;  // which meet no bank twice
  for (std::int64_t batch = blockIdx.y; batch < e.batches; batch += gridDim.y) {
    const auto at = operands(e, batch);
    const float* const from = a_all + at.a + first * e.a_row;
    for (int i = thread; i < count * k; i += threads) {  // neighbours in memory
      const int row = e.a_term == 1 ? i / k : i % count, t = e.a_term == 1 ? i % k : i / count;
      rows[row * a_pitch + t] = from[row * e.a_row + t * e.a_term];
    }
    for (int i = thread; i < n * terms; i += threads) {
      const int column = i % n, t = i / n;
      b[column][t] = t < k ? b_all[at.b + t * e.b_term + column * e.b_column] : 0.0f;
    }
    __syncthreads();
    float x[terms];
#pragma unroll
    for (int t = 0; t < terms; ++t) x[t] = t < k && thread < count ? rows[thread * a_pitch + t] : 0.0f;
    __syncthreads();  // before results are put there
    for (int column = 0; column < n; ++column) {
      float sum = 0;
#pragma unroll
      for (int t = 0; t < terms; t += 4) {
        const float4 y = *reinterpret_cast<const float4*>(&b[column][t]);
        sum = fmaf(x[t + 3], y.w, fmaf(x[t + 2], y.z, fmaf(x[t + 1], y.y, fmaf(x[t], y.x, sum))));
      }
      rows[thread * c_pitch + column] = static_cast<float>(e.alpha) * sum;
    }
    __syncthreads();
    float* const to = c + (batch * e.m + first) * n;
    for (int i = thread; i < count * n; i += threads) to[i] = rows[i / n * c_pitch + i % n];
    __syncthreads();  // before the next product's rows
  }
}

}  // namespace

/// It adds in another order than those for more rows, which may be images if there is but one matrix.
bool takes_matmul_small(const MatMulProblem& problem, const Preparation& p) {
  if (!takes_matmul(problem, p) || p.output().shape.rank() <= 2) return false;
  const MatMulExtents e = detail::matmul_extents(problem, p);
  const bool few_rows = e.m <= most, few_columns = e.n <= most, few_terms = e.k <= most;
  return (few_rows && few_columns) || (few_rows && few_terms && e.b_column == 1) || (few_columns && few_terms);
}

std::unique_ptr<Operator> prepare_matmul_small(const MatMulProblem& problem, const Preparation& p) {
  return make_on_device(
      index(p), "small matrices",
      [e = detail::matmul_extents(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        const float *a = floats(inputs[0]), *b = floats(inputs[1]);
        const auto run = [&](auto kernel, dim3 grid) {
          launch_kernel(kernel, {grid, dim3(threads)}, execution.stream, a, b, floats(outputs[0]), e);
        };
        if (e.m <= most && e.n <= most) return run(matmul_small_kernel, dim3(grid_for(e.batches, 1)));
        const bool of_rows = e.n <= most, few = e.k <= 16;
        const dim3 grid(grid_for(of_rows ? e.m : e.n, threads),
                        static_cast<unsigned>(std::min<std::int64_t>(e.batches, 65535)));
        if (of_rows) return run(few ? matmul_of_rows_kernel<16> : matmul_of_rows_kernel<32>, grid);
        run(few ? matmul_spread_kernel<16> : matmul_spread_kernel<32>, grid);
      });
}

}  // namespace lamina::cuda
