// Softmax along one dimension of [outer, extent, inner].
//
// inner = 1 (logits): a block owns one row, its 256 threads take every 256th class, and meet in shared memory (1 KB)
// for the row's maximum and sum. inner > 1: a thread owns one position of [outer, inner] and walks along the extent,
// neighbours in a warp along inner, so that loads are coalesced.

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/cuda/check.h"
#include "lamina/cuda/softmax.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// The combination of every thread's value, for all threads of the block.
template <class Combine>
__device__ float combine_block(float value, float* shared, Combine combine) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int distance = threads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + distance]);
    __syncthreads();
  }
  const float result = shared[0];
  __syncthreads();  // before anybody writes the next values
  return result;
}

__global__ void __launch_bounds__(threads) softmax_rows_kernel(const float* __restrict__ input,  // [outer, extent]
                                                               float* __restrict__ output,       // [outer, extent]
                                                               std::int64_t outer, std::int64_t extent) {
  __shared__ float shared[threads];
  for (std::int64_t row = blockIdx.x; row < outer; row += gridDim.x) {
    const float* x = input + row * extent;
    float* y = output + row * extent;
    float largest = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < extent; i += threads) largest = fmaxf(largest, x[i]);
    largest = combine_block(largest, shared, Largest{});
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < extent; i += threads) sum += expf(x[i] - largest);
    sum = combine_block(sum, shared, Sum{});
    for (std::int64_t i = threadIdx.x; i < extent; i += threads) y[i] = expf(x[i] - largest) / sum;
  }
}

__global__ void __launch_bounds__(threads)
    softmax_columns_kernel(const float* __restrict__ input,  // [outer, extent, inner]
                           float* __restrict__ output,       // [outer, extent, inner]
                           std::int64_t outer, std::int64_t extent, std::int64_t inner) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t p = std::int64_t{blockIdx.x} * threads + threadIdx.x; p < outer * inner; p += step) {
    const std::int64_t first = p / inner * extent * inner + p % inner;
    const float* x = input + first;
    float* y = output + first;
    float largest = -INFINITY;
    for (std::int64_t i = 0; i < extent; ++i) largest = fmaxf(largest, x[i * inner]);
    float sum = 0;
    for (std::int64_t i = 0; i < extent; ++i) sum += expf(x[i * inner] - largest);
    for (std::int64_t i = 0; i < extent; ++i) y[i * inner] = expf(x[i * inner] - largest) / sum;
  }
}

}  // namespace

void softmax(int device, const float* input, float* output, std::int64_t outer, std::int64_t extent, std::int64_t inner,
             Stream stream) {
  if (outer == 0 || extent == 0 || inner == 0) return;
  const DeviceGuard guard(device);
  const auto grid = [](std::int64_t blocks) {
    return static_cast<unsigned>(std::min<std::int64_t>(blocks, std::numeric_limits<int>::max()));
  };
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (inner == 1) {
    softmax_rows_kernel<<<grid(outer), threads, 0, cuda_stream>>>(input, output, outer, extent);
  } else {
    softmax_columns_kernel<<<grid((outer * inner + threads - 1) / threads), threads, 0, cuda_stream>>>(
        input, output, outer, extent, inner);
  }
  check_launch();
}

}  // namespace lamina::cuda
