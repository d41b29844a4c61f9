// c = alpha * a b for up to four rows, or one column, whose product is that of the matrices turned: limited by reading
// b once.
//
// b' (terms innermost): a warp owns one column; its lanes share out the terms and meet by shuffles.
// b (columns innermost): a block of 8 warps owns 32 columns, a lane each; the warps share out the terms and meet in
// shared memory (4 KB). No chain is longer than 128 terms.
//
// Preconditions: m <= 4.

#include <utility>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/matmul_batch.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/tensor_core/chain.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::MatMulExtents;

constexpr int threads = 256, warps = threads / 32, max_rows = 4;

/// The sums of column b over the terms first, first + step, ...; every `max_chain` of them apart.
template <class T>
__device__ inline void accumulate(float (&sum)[max_rows], const T* a, const T* b, std::int64_t first, std::int64_t step,
                                  const MatMulExtents& e) {
  float chain[max_rows] = {};
  int length = 0;
  for (std::int64_t k = first; k < e.k; k += step) {
    const float y = to_f32(b[k * e.b_term]);
#pragma unroll
    for (int r = 0; r < max_rows; ++r) {
      if (r < e.m) chain[r] = fmaf(to_f32(a[r * e.a_row + k * e.a_term]), y, chain[r]);
    }
    if (++length < max_chain) continue;
    length = 0;
#pragma unroll
    for (int r = 0; r < max_rows; ++r) sum[r] += chain[r], chain[r] = 0;
  }
#pragma unroll
  for (int r = 0; r < max_rows; ++r) sum[r] += chain[r];
}

template <class T>
__global__ void __launch_bounds__(threads)
    matmul_dots_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c,
                       const __grid_constant__ MatMulExtents e) {
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t step = std::int64_t{gridDim.x} * warps;
  for (std::int64_t i = std::int64_t{blockIdx.x} * warps + warp; i < e.batches * e.n; i += step) {
    const std::int64_t batch = i / e.n, column = i % e.n;
    const auto at = operands(e, batch);
    float sum[max_rows] = {};
    accumulate(sum, a + at.a, b + at.b + column * e.b_column, lane, 32, e);
#pragma unroll
    for (int r = 0; r < max_rows; ++r) {
      for (int distance = 16; distance > 0; distance /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
      if (r < e.m && lane == 0) {
        c[(batch * e.m + r) * e.n + column] = from_f32<T>(static_cast<float>(e.alpha) * sum[r]);
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    matmul_columns_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c,
                          const __grid_constant__ MatMulExtents e) {
  __shared__ float shared[warps][max_rows][32];
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t across = (e.n + 31) / 32;
  for (std::int64_t i = blockIdx.x; i < e.batches * across; i += gridDim.x) {
    const std::int64_t batch = i / across, column = i % across * 32 + lane;
    const auto at = operands(e, batch);
    float sum[max_rows] = {};
    if (column < e.n) accumulate(sum, a + at.a, b + at.b + column * e.b_column, warp, warps, e);
#pragma unroll
    for (int r = 0; r < max_rows; ++r) shared[warp][r][lane] = sum[r];
    __syncthreads();
    if (warp < e.m && column < e.n) {
      float total = 0;
      for (int w = 0; w < warps; ++w) total += shared[w][warp][lane];
      c[(batch * e.m + warp) * e.n + column] = from_f32<T>(static_cast<float>(e.alpha) * total);
    }
    __syncthreads();  // before the next columns' sums
  }
}

/// c' = alpha * b' a', which lies as c does where that has one column.
MatMulExtents turned(MatMulExtents e) {
  std::swap(e.m, e.n), std::swap(e.a_row, e.b_column), std::swap(e.a_term, e.b_term);
  std::swap(e.a_strides, e.b_strides);
  return e;
}

bool has_few_rows(const MatMulExtents& e) { return e.m <= max_rows; }

}  // namespace

/// It adds in another order than those for more rows, which may be images if there is but one matrix; the others' order
/// is the same whatever their tiles.
bool takes_matmul_rows(const MatMulProblem& problem, const Preparation& p) {
  if (p.batch_invariant && p.input().shape.rank() <= 2) return false;
  if (!takes_matmul_any(problem, p)) return false;
  const MatMulExtents e = detail::matmul_extents(problem, p);
  return has_few_rows(e) || e.n == 1;
}

std::unique_ptr<Operator> prepare_matmul_rows(const MatMulProblem& problem, const Preparation& p) {
  const MatMulExtents of = detail::matmul_extents(problem, p);
  const bool turns = !has_few_rows(of);
  return make_on_device(
      index(p), "b read once",
      [e = turns ? turned(of) : of, turns](Inputs inputs, Outputs outputs, const Execution& execution) {
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          const bool dots = e.b_term == 1 && e.b_column != 1;
          const std::int64_t work = dots ? (e.batches * e.n + warps - 1) / warps : e.batches * ((e.n + 31) / 32);
          launch_kernel(dots ? matmul_dots_kernel<T> : matmul_columns_kernel<T>,
                        {dim3(grid_for(work, 1)), dim3(threads)}, execution.stream, elements<T>(inputs[turns ? 1 : 0]),
                        elements<T>(inputs[turns ? 0 : 1]), elements<T>(outputs[0]), e);
        });
      });
}

}  // namespace lamina::cuda
