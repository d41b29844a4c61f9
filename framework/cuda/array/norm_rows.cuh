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
  NormKind kind = NormKind::centred;
  std::int64_t inner = 1, channels = 1;
  const float* scale = nullptr;  // [channels]
  const float* shift = nullptr;  // [channels]

  __host__ __device__ bool centred() const { return kind == NormKind::centred; }
  /// What is added up of a row, of an element less the mean.
  __device__ float counted(float v) const { return kind == NormKind::mean ? v : v * v; }
  /// What the row is multiplied by, from the sum of that.
  __device__ float factor(float sum) const {
    const float mean = sum / static_cast<float>(length), root = sqrtf(sum);
    if (kind == NormKind::length) return 1.0f / (root < eps ? eps : root);
    return 1.0f / (kind == NormKind::mean ? mean + eps : sqrtf(mean + eps));
  }
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
  /// From a pack's first element, on a boundary of packs, to the next ones: all of one channel, or of as many that
  /// follow each other. Only where one of the two holds are norms of long rows done by packs.
  __host__ __device__ bool alike_in(std::int64_t pack) const { return inner % pack == 0; }
  __host__ bool packs_of(std::int64_t pack) const { return alike_in(pack) || (inner == 1 && channels % pack == 0); }

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

/// `items` elements each of `threads` threads, of a row or a part of one: whole packs of `size`.
template <class T, int threads, int items, int size = 1>
struct Held {
  float values[items];
  std::int64_t count;
  int lane;

  __device__ Held(const T* x, std::int64_t n, int l) : count(n), lane(l) {
    each_pack([&](float* v, std::int64_t i) {
      const auto pack = *reinterpret_cast<const Pack<T, size>*>(x + i);
#pragma unroll
      for (int j = 0; j < size; ++j) v[j] = to_f32(pack.values[j]);
    });
  }
  /// f(the pack's values, where they lie in the row)
  template <class F>
  __device__ void each_pack(const F& f) {
#pragma unroll
    for (int k = 0; k < items; k += size) {
      const int i = lane * size + k * threads;
      if (i < count) f(values + k, i);
    }
  }
  /// The sum of f(value) over all threads.
  template <class F>
  __device__ float sum(float* shared, const F& f) {
    float total = 0;
    each_pack([&](const float* v, std::int64_t) {
#pragma unroll
      for (int j = 0; j < size; ++j) total += f(v[j]);
    });
    return sum_of_row<threads>(total, shared);
  }
  template <class F>
  __device__ float counted(const NormSettings& s, float* shared, const F& f) {
    return sum(shared, [&](float v) { return s.counted(f(v)); });
  }
};

/// The pack at `i` in its row and `element` of all, from its differences from the mean over the deviation.
template <int size, class T, class F>
__device__ inline void finish_pack(const NormSettings& s, const Channels& channels, T* output, std::int64_t element,
                                   std::int64_t i, const F& normalised) {
  const std::int64_t first = channels(element, i), step = channels.alike_in(size) ? 0 : 1;
  Pack<T, size> pack;
#pragma unroll
  for (int j = 0; j < size; ++j) {
    const std::int64_t c = first + j * step;
    const float scaled = s.scale == nullptr ? normalised(j) : normalised(j) * s.scale[c];
    pack.values[j] = from_f32<T>(s.shift == nullptr ? scaled : scaled + s.shift[c]);
  }
  *reinterpret_cast<Pack<T, size>*>(output + element) = pack;
}

/// Of the elements of a part: their mean, and the sum of the squares of their differences from it; if the norm is not
/// centred, 0 and the sum of what counts.
struct NormPart {
  float mean, squares;
};

}  // namespace lamina::cuda
