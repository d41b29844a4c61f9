// Norms of rows. Layer norms of up to 1024 elements, 16 bytes at a time: a warp owns a row, and nobody waits for
// another warp. Of other norms a warp owns a row of up to 256 elements, and a block of 256 or 512 threads one of up to
// 8192, in registers, so that memory is read once. Longer rows are cut into parts of that many elements, of which one
// launch finds the means and the sums of squares, and another, once all are known, normalises them: so an image that is
// one row has the whole GPU.
//
// The mean is that of the differences from the row's first element, and the variance that of the differences from the
// mean: neither loses a small spread around a large value. Sums are of at most 16 elements a thread; those of parts are
// put together as in Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
// 1979. Shared memory: 128 bytes. Preconditions: none.

#include "lamina/cuda/array/norm.h"

#include "lamina/base/math.h"
#include "lamina/cuda/array/walk.cuh"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int warp = 32;

/// Not inlined: rare, and large.
__device__ __noinline__ std::int64_t divided(std::int64_t element, std::int64_t inner, std::int64_t channels) {
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

/// threads: that share a row; items: elements that each holds.
template <class T, int threads, int items>
__global__ void __launch_bounds__(threads > 256 ? threads : 256)
    norm_kernel(const T* input, T* output, std::int64_t rows, const __grid_constant__ NormSettings s,
                const __grid_constant__ Channels channels) {
  __shared__ float shared[warp];
  let_successor_start();
  wait_for_predecessor();
  constexpr int together = threads > warp ? 1 : 256 / warp;
  const int lane = static_cast<int>(threadIdx.x) % threads;
  const std::int64_t step = std::int64_t{gridDim.x} * together;
  for (std::int64_t row = std::int64_t{blockIdx.x} * together + static_cast<int>(threadIdx.x) / threads; row < rows;
       row += step) {
    const T* x = input + row * s.length;
    Held<T, threads, items> held(x, s.length, lane);
    const auto length = static_cast<float>(s.length);
    const float first = s.centred ? to_f32(x[0]) : 0.0f;
    if constexpr (threads > warp) __syncthreads();  // the row's first element is read before it is written over
    const float mean = s.centred ? held.sum(shared, [&](float v) { return v - first; }) / length : 0.0f;
    const float squares = held.squares(shared, [&](float v) { return v - first - mean; });
    const float factor = 1.0f / sqrtf(squares / length + s.eps);
    held.each([&](float v, std::int64_t i) {
      const std::int64_t element = row * s.length + i;
      output[element] = finished<T>(s, channels, (v - first - mean) * factor, element, i);
    });
  }
}

constexpr int part_threads = 512, part_items = 16, part_elements = part_threads * part_items;

/// Of the elements of a part: their mean, and the sum of the squares of their differences from it; if the norm is not
/// centred, 0 and the sum of their squares.
struct Part {
  float mean, squares;
};

std::int64_t parts_of(std::int64_t length) { return detail::ceil_div<std::int64_t>(length, part_elements); }

template <class T>
__global__ void __launch_bounds__(part_threads)
    norm_parts_kernel(const T* input, Part* parts, std::int64_t all, std::int64_t of_row,
                      const __grid_constant__ NormSettings s) {
  __shared__ float shared[warp];
  let_successor_start();
  wait_for_predecessor();
  for (std::int64_t p = blockIdx.x; p < all; p += gridDim.x) {
    const std::int64_t begin = p % of_row * part_elements;
    const T* x = input + p / of_row * s.length + begin;
    const std::int64_t count = min(s.length - begin, std::int64_t{part_elements});
    Held<T, part_threads, part_items> held(x, count, static_cast<int>(threadIdx.x));
    const float first = s.centred ? to_f32(x[0]) : 0.0f;
    const float more =
        s.centred ? held.sum(shared, [&](float v) { return v - first; }) / static_cast<float>(count) : 0.0f;
    const float squares = held.squares(shared, [&](float v) { return v - first - more; });
    if (threadIdx.x == 0) parts[p] = {first + more, squares};
  }
}

template <class T>
__global__ void __launch_bounds__(part_threads)
    norm_of_parts_kernel(const T* input, T* output, const Part* parts, std::int64_t all, std::int64_t of_row,
                         const __grid_constant__ NormSettings s, const __grid_constant__ Channels channels) {
  __shared__ float shared[warp];
  let_successor_start();
  wait_for_predecessor();
  for (std::int64_t p = blockIdx.x; p < all; p += gridDim.x) {
    const std::int64_t row = p / of_row, begin = p % of_row * part_elements;
    const auto length = static_cast<float>(s.length);
    const Part* const own = parts + row * of_row;
    const auto sum = [&](auto f) {
      float total = 0;
      for (std::int64_t i = threadIdx.x; i < of_row; i += part_threads) {
        total += f(own[i], static_cast<float>(min(s.length - i * part_elements, std::int64_t{part_elements})));
      }
      return sum_of_row<part_threads>(total, shared);
    };
    const float first = own[0].mean;
    const float mean = sum([&](Part part, float count) { return count * (part.mean - first); }) / length;
    const float squares = sum([&](Part part, float count) {
      const float d = part.mean - first - mean;
      return part.squares + count * d * d;
    });
    const float factor = 1.0f / sqrtf(squares / length + s.eps);
    const std::int64_t end = min(s.length, begin + part_elements);
    for (std::int64_t i = begin + threadIdx.x; i < end; i += part_threads) {
      const std::int64_t element = row * s.length + i;
      output[element] = finished<T>(s, channels, (to_f32(input[element]) - first - mean) * factor, element, i);
    }
  }
}

constexpr int rows_of_block = 4;  // of a layer norm: small blocks reach more multiprocessors

/// A row's packs of 16 bytes in one warp: lane l holds packs l, l + 32, ..., `packs` of them. Rows and parameters are
/// whole packs; scale and shift are there.
template <class T, int packs>
__global__ void __launch_bounds__(rows_of_block* warp)
    layer_norm_kernel(const T* input, T* output, std::int64_t rows, const __grid_constant__ NormSettings s) {
  constexpr int size = Pack<T>::size;
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % warp, count = static_cast<int>(s.length) / size;
  const std::int64_t step = std::int64_t{gridDim.x} * rows_of_block;
  for (std::int64_t row = std::int64_t{blockIdx.x} * rows_of_block + static_cast<int>(threadIdx.x) / warp; row < rows;
       row += step) {
    const auto* x = reinterpret_cast<const Pack<T>*>(input + row * s.length);
    Pack<T> held[packs];
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (lane + k * warp < count) held[k] = x[lane + k * warp];
    }
    const float first = s.centred ? __shfl_sync(0xffffffffu, to_f32(held[0].values[0]), 0) : 0.0f;
    const auto sum = [&](auto f) {
      float total = 0;
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        if (lane + k * warp >= count) continue;
#pragma unroll
        for (int j = 0; j < size; ++j) total += f(to_f32(held[k].values[j]));
      }
      return sum_of_row<warp>(total, nullptr);
    };
    const auto length = static_cast<float>(s.length);
    const float mean = s.centred ? sum([&](float v) { return v - first; }) / length : 0.0f;
    const float squares = sum([&](float v) {
      const float d = v - first - mean;
      return d * d;
    });
    const float factor = 1.0f / sqrtf(squares / length + s.eps);
    auto* y = reinterpret_cast<Pack<T>*>(output + row * s.length);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int pack = lane + k * warp;
      if (pack >= count) continue;
      Pack<T> result;
#pragma unroll
      for (int j = 0; j < size; j += 4) {
        const float4 scale = *reinterpret_cast<const float4*>(s.scale + pack * size + j),
                     shift = *reinterpret_cast<const float4*>(s.shift + pack * size + j);
        const auto at = [&](int i, float a, float b) {
          result.values[j + i] = from_f32<T>((to_f32(held[k].values[j + i]) - first - mean) * factor * a + b);
        };
        at(0, scale.x, shift.x), at(1, scale.y, shift.y), at(2, scale.z, shift.z), at(3, scale.w, shift.w);
      }
      y[pack] = result;
    }
  }
}

}  // namespace

std::size_t norm_workspace(std::int64_t length, std::int64_t count) {
  if (length <= part_elements) return 0;
  return static_cast<std::size_t>(count / length * parts_of(length)) * sizeof(Part);
}

void norm(int device, const NormSettings& settings, DType dtype, const void* input, void* output, std::int64_t count,
          void* workspace, Stream stream) {
  if (count == 0) return;
  const DeviceGuard guard(device);
  Channels channels = {settings.inner, settings.channels, Divider(1), Divider(1), Channels::Way::wide};
  if (settings.inner == 1 && settings.channels == settings.length) {
    channels.way = Channels::Way::in_row;
  } else if (count < narrow_count && settings.inner < narrow_count && settings.channels < narrow_count) {
    channels.by_inner = Divider(settings.inner);
    channels.by_channels = Divider(settings.channels);
    channels.way = Channels::Way::narrow;
  }
  const std::int64_t rows = count / settings.length;
  with_element_type(dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const auto start = [&](auto kernel, int block, int together) {
      launch_kernel(kernel, {.grid = dim3(grid_for(rows, together)), .block = dim3(static_cast<unsigned>(block))},
                    stream, static_cast<const T*>(input), static_cast<T*>(output), rows, settings, channels);
    };
    constexpr int size = Pack<T>::size;
    const bool packed = channels.way == Channels::Way::in_row && settings.scale != nullptr &&
                        settings.shift != nullptr && settings.length % size == 0 && aligned_to_16(input) &&
                        aligned_to_16(output);
    if (packed && settings.length <= 1024) {
      const auto start_packed = [&](auto kernel) {
        launch_kernel(kernel, {.grid = dim3(grid_for(rows, rows_of_block)), .block = dim3(rows_of_block * warp)},
                      stream, static_cast<const T*>(input), static_cast<T*>(output), rows, settings);
      };
      constexpr int of_all = 1024 / warp / size;
      if (settings.length * 4 <= 1024) return start_packed(layer_norm_kernel<T, of_all / 4>);
      if (settings.length * 2 <= 1024) return start_packed(layer_norm_kernel<T, of_all / 2>);
      return start_packed(layer_norm_kernel<T, of_all>);
    }
    if (settings.length <= 256) {
      start(norm_kernel<T, warp, 8>, 256, 8);
    } else if (settings.length <= 1024) {
      start(norm_kernel<T, 256, 4>, 256, 1);
    } else if (settings.length <= part_elements) {
      start(norm_kernel<T, part_threads, part_items>, part_threads, 1);
    } else {
      const std::int64_t of_row = parts_of(settings.length), all = rows * of_row;
      const Launch how = {.grid = dim3(grid_for(all, 1)), .block = dim3(part_threads)};
      auto* const parts = static_cast<Part*>(workspace);
      const auto* const from = static_cast<const T*>(input);
      launch_kernel(norm_parts_kernel<T>, how, stream, from, parts, all, of_row, settings);
      launch_kernel(norm_of_parts_kernel<T>, how, stream, from, static_cast<T*>(output),
                    static_cast<const Part*>(parts), all, of_row, settings, channels);
    }
  });
}

}  // namespace lamina::cuda
