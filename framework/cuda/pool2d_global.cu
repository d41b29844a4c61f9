// The mean of whole images, channels last. A block owns up to eight packs of 16 bytes of one image's channels; its
// teams of threads take every teams-th pixel each, four at a time in flight, and meet in shared memory. How the sum is
// divided depends on the image alone, so that a batch changes no bit.
//
// Shared memory: a pack of f32 for each thread, at most 32 KB. Preconditions: none.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int max_threads = 1024, max_lanes = 8, in_flight = 4;

struct Extents {
  std::int64_t pixels, packs;
  int lanes, teams, chunks;  // of a block: packs, threads for each; blocks of an image
};

template <class T, int N>
__global__ void __launch_bounds__(max_threads)
    global_average_kernel(const Extents e, const T* __restrict__ input, T* __restrict__ output) {
  extern __shared__ float sums[];  // [teams, lanes, N]
  let_successor_start();
  const int lane = static_cast<int>(threadIdx.x) % e.lanes, team = static_cast<int>(threadIdx.x) / e.lanes;
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(e.chunks);
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x % static_cast<unsigned>(e.chunks)) * e.lanes + lane;
  const bool mine = pack < e.packs && team < e.teams;
  const auto* source = reinterpret_cast<const Pack<T, N>*>(input) + image * e.pixels * e.packs + (mine ? pack : 0);
  float sum[N] = {};
  wait_for_predecessor();
  for (std::int64_t pixel = team; mine && pixel < e.pixels; pixel += std::int64_t{in_flight} * e.teams) {
    Pack<T, N> values[in_flight] = {};
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const std::int64_t at = pixel + std::int64_t{i} * e.teams;
      if (at < e.pixels) values[i] = source[at * e.packs];
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += to_f32(values[i].values[j]);
    }
  }
  float* own = sums + static_cast<int>(threadIdx.x) * N;
  for (int half = e.teams / 2; half > 0; half /= 2) {
    if (team >= half && team < 2 * half) {
#pragma unroll
      for (int j = 0; j < N; ++j) own[j] = sum[j];
    }
    __syncthreads();
    if (team < half) {
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += own[half * e.lanes * N + j];
    }
    __syncthreads();
  }
  if (!mine || team != 0) return;
  Pack<T, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j) result.values[j] = from_f32<T>(sum[j] / static_cast<float>(e.pixels));
  reinterpret_cast<Pack<T, N>*>(output)[image * e.packs + pack] = result;
}

template <int N, class T>
void start(std::int64_t images, std::int64_t pixels, std::int64_t packs, const T* input, T* output, Stream stream) {
  Extents e{.pixels = pixels, .packs = packs, .lanes = 1, .teams = 1, .chunks = 1};
  e.lanes = static_cast<int>(std::min<std::int64_t>(packs, max_lanes));
  e.chunks = static_cast<int>(detail::ceil_div<std::int64_t>(packs, e.lanes));
  const int threads = pixels > 1024 ? max_threads : 256;
  while (2 * e.teams * e.lanes <= threads && e.teams < pixels) e.teams *= 2;
  const auto block = static_cast<unsigned>(detail::round_up(e.teams * e.lanes, 32));
  launch_kernel(global_average_kernel<T, N>,
                {.grid = dim3(static_cast<unsigned>(images * e.chunks)),
                 .block = dim3(block),
                 .shared_bytes = block * N * sizeof(float)},
                stream, e, input, output);
}

}  // namespace

void global_average(DType dtype, std::int64_t images, std::int64_t pixels, std::int64_t channels, const void* input,
                    void* output, Stream stream) {
  with_element_type(dtype, [&]<class T>(T*) {
    const auto* in = static_cast<const T*>(input);
    auto* out = static_cast<T*>(output);
    if (channels % Pack<T>::size == 0 && aligned_to_16(input) && aligned_to_16(output)) {
      start<Pack<T>::size>(images, pixels, channels / Pack<T>::size, in, out, stream);
    } else {
      start<1>(images, pixels, channels, in, out, stream);
    }
  });
}

}  // namespace lamina::cuda
