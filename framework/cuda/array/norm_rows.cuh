#pragma once

#include <cstdint>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/elements.cuh"

/// What the kernels of norms share: rows or parts of them held in registers, and how their sums are found.
namespace lamina::cuda {

/// What a NormProblem says, with its parameters on the device; null: 1, or 0.
struct NormSettings {
  std::int64_t length = 1;
  float eps = 1e-5f;
  bool centred = true;
  std::int64_t inner = 1, channels = 1;
  const float* scale = nullptr;  // [channels]
  const float* shift = nullptr;  // [channels]
};

inline constexpr int warp = 32;
/// Elements that a block holds.
inline constexpr int part_threads = 512, part_items = 16, part_elements = part_threads * part_items;

/// Not inlined: rare, and large.
inline __device__ __noinline__ std::int64_t divided(std::int64_t element, std::int64_t inner, std::int64_t channels) {
  return element / inner % channels;
}

/// Which channel an element belongs to.
struct Channels {
  std::int64_t inner, channels;
  Divider by_inner, by_channels;
  enum class Way { in_row, narrow, wide } way;

  __device__ std::int64_t operator()(std::int64_t element, std::int64_t in_row) const {
    if (way == Way::in_row) return in_row;
    if (way == Way::wide) return divided(element, inner, channels);
    const std::uint32_t line = by_inner.quotient(static_cast<std::uint32_t>(element));
    return line - by_channels.quotient(line) * static_cast<std::uint32_t>(channels);
  }
};

/// The sum over the `threads` threads that share a row, for each of them. A block's meet in shared memory.
template <int threads>
__device__ inline float sum_of_row(float value, float* shared) {
#pragma unroll
  for (int distance = warp / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  if constexpr (threads > warp) {
    if (threadIdx.x % warp == 0) shared[threadIdx.x / warp] = value;
    __syncthreads();
    value = 0;
#pragma unroll
    for (int w = 0; w < threads / warp; ++w) value += shared[w];
    __syncthreads();  // before anybody writes the next sum
  }
  return value;
}

/// `items` elements each of `threads` threads, of a row or a part of one.
template <class T, int threads, int items>
struct Held {
  float values[items];
  std::int64_t count;
  int lane;

  __device__ Held(const T* x, std::int64_t n, int l) : count(n), lane(l) {
    each([&](float& v, std::int64_t i) { v = to_f32(x[i]); });
  }
  template <class F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int k = 0; k < items; ++k) {
      const int i = lane + k * threads;
      if (i < count) f(values[k], i);
    }
  }
  /// The sum of f(value) over all threads.
  template <class F>
  __device__ float sum(float* shared, const F& f) {
    float total = 0;
    each([&](float v, std::int64_t) { total += f(v); });
    return sum_of_row<threads>(total, shared);
  }
  template <class F>
  __device__ float squares(float* shared, const F& f) {
    return sum(shared, [&](float v) { return f(v) * f(v); });
  }
};

/// One element, `i` in its row and `element` of all, from its difference from the mean over the deviation.
template <class T>
__device__ inline T finished(const NormSettings& s, const Channels& channels, float normalised, std::int64_t element,
                             std::int64_t i) {
  const std::int64_t c = channels(element, i);
  const float scaled = s.scale == nullptr ? normalised : normalised * s.scale[c];
  return from_f32<T>(s.shift == nullptr ? scaled : scaled + s.shift[c]);
}

/// Of the elements of a part: their mean, and the sum of the squares of their differences from it; if the norm is not
/// centred, 0 and the sum of their squares.
struct NormPart {
  float mean, squares;
};

}  // namespace lamina::cuda
