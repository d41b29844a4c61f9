#pragma once

// Sums over the pixels of images channels last: columns [images, pixels, channels] to [images, channels]. A block
// owns up to eight packs of 16 bytes of one image's channels; its teams of threads take every teams-th pixel each, four
// at a time in flight, and meet in shared memory. How a column is divided depends on the image alone, so that a batch
// changes no bit.
//
// Shared memory: the states of half the threads, at most 32 KB. Preconditions: images * channels fits an int.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {

inline constexpr int max_column_threads = 1024;

struct Columns {
  std::int64_t pixels, packs;
  int lanes, teams, chunks;  // of a block: packs, threads for each; blocks of an image
};

/// State: what a thread knows of the elements that it has seen (pool2d.cu has one).
template <class State, class Settings, class T, int N>
__global__ void __launch_bounds__(max_column_threads)
    columns_kernel(const Columns e, const __grid_constant__ Settings settings, const T* __restrict__ input,
                   T* __restrict__ output) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const states = reinterpret_cast<State*>(memory);  // [teams / 2, lanes, N]
  constexpr int in_flight = 4;
  let_successor_start();
  const int lane = static_cast<int>(threadIdx.x) % e.lanes, team = static_cast<int>(threadIdx.x) / e.lanes;
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(e.chunks);
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x % static_cast<unsigned>(e.chunks)) * e.lanes + lane;
  const bool mine = pack < e.packs && team < e.teams;
  const auto* source = reinterpret_cast<const Pack<T, N>*>(input) + image * e.pixels * e.packs + (mine ? pack : 0);
  State state[N];
#pragma unroll
  for (State& one : state) one = State(settings);
  wait_for_predecessor();
  for (std::int64_t pixel = team; mine && pixel < e.pixels; pixel += std::int64_t{in_flight} * e.teams) {
    Pack<T, N> values[in_flight] = {};  // zeros add nothing
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const std::int64_t at = pixel + std::int64_t{i} * e.teams;
      if (at < e.pixels) values[i] = source[at * e.packs];
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j) state[j].add(settings, to_f32(values[i].values[j]), 0);
    }
  }
  for (int half = e.teams / 2; half > 0; half /= 2) {
    State* const met = states + ((team & (half - 1)) * e.lanes + lane) * N;
    if (team >= half && team < 2 * half) {
#pragma unroll
      for (int j = 0; j < N; ++j) met[j] = state[j];
    }
    __syncthreads();
    if (team < half) {
#pragma unroll
      for (int j = 0; j < N; ++j) state[j].join(settings, met[j]);
    }
    __syncthreads();
  }
  if (!mine || team != 0) return;
  Pack<T, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j) result.values[j] = from_f32<T>(state[j].result(settings, e.pixels));
  reinterpret_cast<Pack<T, N>*>(output)[image * e.packs + pack] = result;
}

template <class State, class Settings, class T>
void reduce_columns(const Settings& settings, std::int64_t images, std::int64_t pixels, std::int64_t channels,
                    const T* input, T* output, Stream stream) {
  const auto start = [&]<int N>(std::integral_constant<int, N>) {
    Columns e{.pixels = pixels, .packs = channels / N, .lanes = 1, .teams = 1, .chunks = 1};
    // Of large images of few channels narrow blocks: a few images have to occupy a whole GPU.
    const bool large = pixels > 1024;
    e.lanes = static_cast<int>(std::min<std::int64_t>(e.packs, large && e.packs < 32 ? 4 : 8));
    e.chunks = static_cast<int>(detail::ceil_div<std::int64_t>(e.packs, e.lanes));
    while (2 * e.teams * e.lanes <= (large ? max_column_threads : 256) && e.teams < pixels) e.teams *= 2;
    const auto block = static_cast<unsigned>(detail::round_up(e.teams * e.lanes, 32));
    launch_kernel(columns_kernel<State, Settings, T, N>,
                  {.grid = dim3(static_cast<unsigned>(images * e.chunks)),
                   .block = dim3(block),
                   .shared_bytes = static_cast<std::size_t>(e.teams) / 2 * e.lanes * N * sizeof(State)},
                  stream, e, settings, input, output);
  };
  if (channels % Pack<T>::size == 0 && aligned_to_16(input) && aligned_to_16(output)) {
    start(std::integral_constant<int, Pack<T>::size>());
  } else {
    start(std::integral_constant<int, 1>());
  }
}

}  // namespace lamina::cuda
