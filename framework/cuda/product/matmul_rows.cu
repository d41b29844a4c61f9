// c = alpha * a b for up to four rows: limited by reading b once.
//
// b' (terms innermost): a warp owns one column; its lanes share out the terms and meet by shuffles.
// b (columns innermost): a block of 8 warps owns 32 columns, a lane each; the warps share out the terms and meet in
// shared memory (4 KB). No chain is longer than 128 terms.
//
// Preconditions: m <= 4.

#include <algorithm>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/matmul.h"
#include "lamina/cuda/product/matmul_batch.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/tensor_core/chain.h"

namespace lamina::cuda {
namespace {

using detail::MatMulExtents;

constexpr int threads = 256, warps = threads / 32, max_rows = static_cast<int>(matmul_max_rows);

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

}  // namespace

void matmul_rows(int device, DType dtype, const MatMulExtents& e, const void* a, const void* b, void* c,
                 Stream stream) {
  if (e.batches == 0 || e.m == 0 || e.n == 0) return;
  const DeviceGuard guard(device);
  with_element_type(dtype, [&]<class T>(T*) {
    const bool dots = e.b_term == 1 && e.b_column != 1;
    const std::int64_t work = dots ? (e.batches * e.n + warps - 1) / warps : e.batches * ((e.n + 31) / 32);
    launch_kernel(dots ? matmul_dots_kernel<T> : matmul_columns_kernel<T>, {dim3(grid_for(work, 1)), dim3(threads)},
                  stream, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c), e);
  });
}

}  // namespace lamina::cuda
