// c = alpha * a b of up to 32 terms, in many products: limited by reading each operand once.
//
// Up to 32 rows, columns innermost: a lies in shared memory (4 KB), and a thread reads a column once.
// Up to 32 columns: b lies in shared memory, and a thread has a row, which it reads and writes there with its
// neighbours (17 KB).
//
// Preconditions: what takes_matmul_short says.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/matmul_batch.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::MatMulExtents;

constexpr int threads = 128, most = 32;

/// One of a row and a column, of which those beyond e.k are 0.
template <int terms>
__device__ inline float dot(const float (&x)[terms], const float* y) {
  float sum = 0;
#pragma unroll
  for (int t = 0; t < terms; t += 4) {
    const float4 four = *reinterpret_cast<const float4*>(y + t);
    sum = fmaf(x[t + 3], four.w, fmaf(x[t + 2], four.z, fmaf(x[t + 1], four.y, fmaf(x[t], four.x, sum))));
  }
  return sum;
}

template <int terms, class T>
__global__ void __launch_bounds__(threads)
    matmul_of_columns_kernel(const T* __restrict__ a_all, const T* __restrict__ b_all, T* __restrict__ c,
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
      y[t] = t < e.k && column < e.n ? to_f32(b_all[at.b + t * e.b_term + column]) : 0.0f;
    }
    for (int i = thread; i < static_cast<int>(e.m) * terms; i += threads) {
      const int row = i / terms, t = i % terms;
      a[row][t] = t < e.k ? to_f32(a_all[at.a + row * e.a_row + t * e.a_term]) : 0.0f;
    }
    __syncthreads();
    for (int row = 0; row < static_cast<int>(e.m); ++row) {
      const float sum = dot(y, a[row]);
      if (column < e.n) c[(batch * e.m + row) * e.n + column] = from_f32<T>(static_cast<float>(e.alpha) * sum);
    }
    __syncthreads();  // before the next product's rows
  }
}

template <int terms, class T>
__global__ void __launch_bounds__(threads)
    matmul_of_rows_kernel(const T* __restrict__ a_all, const T* __restrict__ b_all, T* __restrict__ c,
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
    const T* const from = a_all + at.a + first * e.a_row;
    for (int i = thread; i < count * k; i += threads) {  // neighbours in memory
      const int row = e.a_term == 1 ? i / k : i % count, t = e.a_term == 1 ? i % k : i / count;
      rows[row * a_pitch + t] = to_f32(from[row * e.a_row + t * e.a_term]);
    }
    for (int i = thread; i < n * terms; i += threads) {
      const int column = i % n, t = i / n;
      b[column][t] = t < k ? to_f32(b_all[at.b + t * e.b_term + column * e.b_column]) : 0.0f;
    }
    __syncthreads();
    float x[terms];
#pragma unroll
    for (int t = 0; t < terms; ++t) x[t] = t < k && thread < count ? rows[thread * a_pitch + t] : 0.0f;
    __syncthreads();  // before results are put there
    for (int column = 0; column < n; ++column) {
      rows[thread * c_pitch + column] = static_cast<float>(e.alpha) * dot(x, b[column]);
    }
    __syncthreads();
    T* const to = c + (batch * e.m + first) * n;
    for (int i = thread; i < count * n; i += threads) to[i] = from_f32<T>(rows[i / n * c_pitch + i % n]);
    __syncthreads();  // before the next product's rows
  }
}

bool is_of_rows(const MatMulExtents& e) { return e.n <= most; }

}  // namespace

/// It adds in another order than those for more rows, which may be images if there is but one matrix. In 16 bits tensor
/// cores are as fast where there are more than four rows.
bool takes_matmul_short(const MatMulProblem& problem, const Preparation& p) {
  if (!takes_matmul_any(problem, p) || p.output().shape.rank() <= 2) return false;
  const MatMulExtents e = detail::matmul_extents(problem, p);
  if (e.k > most || (e.m <= most && e.n <= most)) return false;
  if (p.input().format.dtype != DType::f32 && e.m > 4) return false;
  return is_of_rows(e) || (e.m <= most && e.b_column == 1);
}

/// Few blocks take longer than the tiles of prepare_matmul, which add in the same order. What prepare_matmul_rows would
/// take otherwise, of few rows or of one column, adds in another: that is not to depend on how many products there are.
bool matmul_short_pays(const MatMulProblem& problem, const Preparation& p) {
  const MatMulExtents e = detail::matmul_extents(problem, p);
  const std::int64_t blocks = e.batches * detail::ceil_div<std::int64_t>(is_of_rows(e) ? e.m : e.n, threads);
  return e.m <= 4 || e.n == 1 || blocks >= std::int64_t{2} * p.device.multiprocessors;
}

std::unique_ptr<Operator> prepare_matmul_short(const MatMulProblem& problem, const Preparation& p) {
  return make_on_device(
      index(p), "short sums",
      [e = detail::matmul_extents(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          const bool of_rows = is_of_rows(e), few = e.k <= 16;
          const dim3 grid(grid_for(of_rows ? e.m : e.n, threads),
                          static_cast<unsigned>(std::min<std::int64_t>(e.batches, 65535)));
          const auto kernel = of_rows ? (few ? matmul_of_rows_kernel<16, T> : matmul_of_rows_kernel<32, T>)
                                      : (few ? matmul_of_columns_kernel<16, T> : matmul_of_columns_kernel<32, T>);
          launch_kernel(kernel, {grid, dim3(threads)}, execution.stream, elements<T>(inputs[0]), elements<T>(inputs[1]),
                        elements<T>(outputs[0]), e);
        });
      });
}

}  // namespace lamina::cuda
