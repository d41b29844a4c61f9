// Softmax along one dimension of [outer, extent, inner], and its logarithm.
//
// inner = 1 (logits): of rows of up to 512 classes a warp owns one and holds it in registers, of longer ones a block.
// inner > 1: a thread owns one position of [outer, inner] and walks along the extent, neighbours in a warp along inner,
// so that loads are coalesced; where positions are too few to fill a GPU, up to 32 threads of a block share one.
// Threads that share a position meet in shared memory (1 KB).

#include <algorithm>
#include <cmath>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/extents.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256;
constexpr int warp = 32;
constexpr int held_classes = 16;  // of a warp's thread, at most

struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <class Combine>
__device__ float combine_warp(float value, Combine combine) {
#pragma unroll
  for (int distance = warp / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

/// From the largest logit and the sum of exp(x - largest) over the extent. A NaN among the logits, or infinite ones
/// alone, make the sum NaN, and so all results.
struct Finish {
  float largest, factor, log_sum;
  bool log;

  __device__ Finish(float l, float sum, bool is_log)
      : largest(l), factor(1.0f / sum), log_sum(is_log ? logf(sum) : 0.0f), log(is_log) {}
  __device__ float operator()(float x) const { return log ? x - largest - log_sum : expf(x - largest) * factor; }
};

template <class T, int held>
__global__ void __launch_bounds__(threads)
    softmax_short_rows_kernel(const T* __restrict__ input,  // [outer, extent], extent <= 32 * held
                              T* __restrict__ output,       // [outer, extent]
                              std::int64_t outer, int extent, bool log) {
  let_successor_start();
  wait_for_predecessor();
  constexpr int rows = threads / warp;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t step = std::int64_t{gridDim.x} * rows;
  for (std::int64_t row = std::int64_t{blockIdx.x} * rows + static_cast<int>(threadIdx.x) / warp; row < outer;
       row += step) {
    float x[held];
    float largest = -INFINITY, sum = 0;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int i = lane + k * warp;
      x[k] = i < extent ? to_f32(input[row * extent + i]) : -INFINITY;
      largest = fmaxf(largest, x[k]);
    }
    largest = combine_warp(largest, Largest{});
#pragma unroll
    for (int k = 0; k < held; ++k) {
      if (lane + k * warp < extent) sum += expf(x[k] - largest);
    }
    sum = combine_warp(sum, Sum{});
    const Finish finish(largest, sum, log);
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int i = lane + k * warp;
      if (i < extent) output[row * extent + i] = from_f32<T>(finish(x[k]));
    }
  }
}

/// The combination of the values of a block's threads that are `distance` or multiples of it apart, for all of them.
template <class Combine>
__device__ float combine_column(float value, float* shared, int distance, Combine combine) {
  if (distance == threads) return value;
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int half = threads / 2; half >= distance; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) {
      shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const float result = shared[static_cast<int>(threadIdx.x) % distance];
  __syncthreads();  // before anybody writes the next values
  return result;
}

/// `width`, a power of two: positions of a block, whose threads are so far apart.
template <class T>
__global__ void __launch_bounds__(threads)
    softmax_columns_kernel(const T* __restrict__ input,  // [outer, extent, inner]
                           T* __restrict__ output,       // [outer, extent, inner]
                           std::int64_t outer, std::int64_t extent, std::int64_t inner, int width, bool log) {
  __shared__ float shared[threads];
  let_successor_start();
  wait_for_predecessor();
  const int place = static_cast<int>(threadIdx.x) % width, mine = static_cast<int>(threadIdx.x) / width;
  const int sharers = threads / width;
  for (std::int64_t block = blockIdx.x; block * width < outer * inner; block += gridDim.x) {
    const std::int64_t p = block * width + place;
    const std::int64_t end = p < outer * inner ? extent : 0;
    const std::int64_t first = p / inner * extent * inner + p % inner;
    const T* x = input + first;
    T* y = output + first;
    float largest = -INFINITY;
    for (std::int64_t i = mine; i < end; i += sharers) largest = fmaxf(largest, to_f32(x[i * inner]));
    largest = combine_column(largest, shared, width, Largest{});
    float sum = 0, lost = 0;  // Kahan's: one thread may add them all
    for (std::int64_t i = mine; i < end; i += sharers) {
      const float term = expf(to_f32(x[i * inner]) - largest) - lost, next = __fadd_rn(sum, term);
      lost = __fsub_rn(__fsub_rn(next, sum), term);
      sum = next;
    }
    sum = combine_column(sum, shared, width, Sum{});
    const Finish finish(largest, sum, log);
    for (std::int64_t i = mine; i < end; i += sharers) y[i * inner] = from_f32<T>(finish(to_f32(x[i * inner])));
  }
}

/// Positions of a block: fewer, of at least 8, where there are too few for a GPU, as long as threads have work. The
/// order of sums follows it.
int column_width(std::int64_t positions, std::int64_t extent) {
  constexpr std::int64_t enough = 1 << 17;  // threads
  int width = threads;
  while (width > 8 && positions * (threads / width) < enough && extent >= 8 * (threads / width)) width /= 2;
  return width;
}

}  // namespace

std::unique_ptr<Operator> prepare_softmax(const SoftmaxProblem& problem, const Preparation& p) {
  const auto [outer, extent, inner] = detail::softmax_extents(problem, p);
  constexpr std::int64_t usual_images = 32;  // whose order all batches have, where batches must not matter
  const std::int64_t all = outer * inner;
  const std::int64_t usual =
      p.batch_invariant ? detail::ceil_div(all, std::max<std::int64_t>(p.images, 1)) * usual_images : all;
  return make_on_device(
      index(p), "three passes",
      [outer = outer, extent = extent, inner = inner, width = inner > 1 ? column_width(usual, extent) : 1,
       log = problem.kind == SoftmaxKind::log_softmax](Inputs inputs, Outputs outputs, const Execution& execution) {
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          const auto launch = [&](auto kernel, unsigned grid, auto... arguments) {
            launch_kernel(kernel, {dim3(grid), dim3(threads)}, execution.stream, elements<T>(inputs[0]),
                          elements<T>(outputs[0]), outer, arguments...);
          };
          const unsigned warps = grid_for(outer, threads / warp);
          if (inner > 1 || extent > held_classes * warp) {
            launch(softmax_columns_kernel<T>, grid_for(outer * inner, width), extent, inner, width, log);
          } else if (extent <= 8 * warp) {
            launch(softmax_short_rows_kernel<T, 8>, warps, static_cast<int>(extent), log);
          } else {
            launch(softmax_short_rows_kernel<T, held_classes>, warps, static_cast<int>(extent), log);
          }
        });
      });
}

}  // namespace lamina::cuda
