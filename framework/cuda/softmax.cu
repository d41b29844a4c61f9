// Softmax along one dimension of [outer, extent, inner].
//
// inner = 1 (logits): a block owns one row, its 256 threads take every 256th class, and meet in shared memory (1 KB)
// for the row's maximum and sum. inner > 1: a thread owns one position of [outer, inner] and walks along the extent,
// neighbours in a warp along inner, so that loads are coalesced.

#include <cmath>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"
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

template <class T>
__global__ void __launch_bounds__(threads) softmax_rows_kernel(const T* __restrict__ input,  // [outer, extent]
                                                               T* __restrict__ output,       // [outer, extent]
                                                               std::int64_t outer, std::int64_t extent) {
  __shared__ float shared[threads];
  let_successor_start();
  wait_for_predecessor();
  for (std::int64_t row = blockIdx.x; row < outer; row += gridDim.x) {
    const T* x = input + row * extent;
    T* y = output + row * extent;
    float largest = -INFINITY;
    for (std::int64_t i = threadIdx.x; i < extent; i += threads) largest = fmaxf(largest, to_f32(x[i]));
    largest = combine_block(largest, shared, Largest{});
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < extent; i += threads) sum += expf(to_f32(x[i]) - largest);
    sum = combine_block(sum, shared, Sum{});
    for (std::int64_t i = threadIdx.x; i < extent; i += threads) y[i] = from_f32<T>(expf(to_f32(x[i]) - largest) / sum);
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    softmax_columns_kernel(const T* __restrict__ input,  // [outer, extent, inner]
                           T* __restrict__ output,       // [outer, extent, inner]
                           std::int64_t outer, std::int64_t extent, std::int64_t inner) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t p = std::int64_t{blockIdx.x} * threads + threadIdx.x; p < outer * inner; p += step) {
    const std::int64_t first = p / inner * extent * inner + p % inner;
    const T* x = input + first;
    T* y = output + first;
    float largest = -INFINITY;
    for (std::int64_t i = 0; i < extent; ++i) largest = fmaxf(largest, to_f32(x[i * inner]));
    float sum = 0;
    for (std::int64_t i = 0; i < extent; ++i) sum += expf(to_f32(x[i * inner]) - largest);
    for (std::int64_t i = 0; i < extent; ++i) y[i * inner] = from_f32<T>(expf(to_f32(x[i * inner]) - largest) / sum);
  }
}

}  // namespace

void softmax(int device, DType dtype, const void* input, void* output, std::int64_t outer, std::int64_t extent,
             std::int64_t inner, Stream stream) {
  if (outer == 0 || extent == 0 || inner == 0) return;
  const DeviceGuard guard(device);
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  with_element_type(dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const auto* in = static_cast<const T*>(input);
    auto* out = static_cast<T*>(output);
    if (inner == 1) {
      launch_kernel(softmax_rows_kernel<T>, {dim3(grid_for(outer, 1)), dim3(threads)}, cuda_stream, in, out, outer,
                    extent);
    } else {
      launch_kernel(softmax_columns_kernel<T>, {dim3(grid_for(outer * inner, threads)), dim3(threads)}, cuda_stream, in,
                    out, outer, extent, inner);
    }
  });
}

}  // namespace lamina::cuda
