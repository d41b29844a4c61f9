// Norms of long rows, in parts of as many elements as a block holds: one launch finds each part's mean and sum of
// squares, and another, once all are known, normalises them. So an image that is one row has the whole GPU.
//
// Parts are put together as in Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979. Shared memory: 128 bytes. Preconditions: none; the output may be the input.

#include "lamina/base/math.h"
#include "lamina/cuda/array/norm_rows.cuh"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

std::int64_t parts_of(std::int64_t length) { return detail::ceil_div<std::int64_t>(length, part_elements); }

template <class T>
__global__ void __launch_bounds__(part_threads)
    norm_parts_kernel(const T* input, NormPart* parts, std::int64_t all, std::int64_t of_row,
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
    norm_of_parts_kernel(const T* input, T* output, const NormPart* parts, std::int64_t all, std::int64_t of_row,
                         const __grid_constant__ NormSettings s, const __grid_constant__ Channels channels) {
  __shared__ float shared[warp];
  let_successor_start();
  wait_for_predecessor();
  for (std::int64_t p = blockIdx.x; p < all; p += gridDim.x) {
    const std::int64_t row = p / of_row, begin = p % of_row * part_elements;
    const auto length = static_cast<float>(s.length);
    const NormPart* const own = parts + row * of_row;
    const auto sum = [&](auto f) {
      float total = 0;
      for (std::int64_t i = threadIdx.x; i < of_row; i += part_threads) {
        total += f(own[i], static_cast<float>(min(s.length - i * part_elements, std::int64_t{part_elements})));
      }
      return sum_of_row<part_threads>(total, shared);
    };
    const float first = own[0].mean;
    const float mean = sum([&](NormPart part, float count) { return count * (part.mean - first); }) / length;
    const float squares = sum([&](NormPart part, float count) {
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

}  // namespace

std::size_t norm_workspace(std::int64_t length, std::int64_t count) {
  if (length <= part_elements) return 0;
  return static_cast<std::size_t>(count / length * parts_of(length)) * sizeof(NormPart);
}

template <class T>
void norm_by_parts(const NormSettings& settings, const Channels& channels, const T* input, T* output, std::int64_t rows,
                   NormPart* parts, Stream stream) {
  const std::int64_t of_row = parts_of(settings.length), all = rows * of_row;
  const Launch how = {.grid = dim3(grid_for(all, 1)), .block = dim3(part_threads)};
  launch_kernel(norm_parts_kernel<T>, how, stream, input, parts, all, of_row, settings);
  launch_kernel(norm_of_parts_kernel<T>, how, stream, input, output, static_cast<const NormPart*>(parts), all, of_row,
                settings, channels);
}

template void norm_by_parts(const NormSettings&, const Channels&, const float*, float*, std::int64_t, NormPart*,
                            Stream);
template void norm_by_parts(const NormSettings&, const Channels&, const __half*, __half*, std::int64_t, NormPart*,
                            Stream);
template void norm_by_parts(const NormSettings&, const Channels&, const __nv_bfloat16*, __nv_bfloat16*, std::int64_t,
                            NormPart*, Stream);

}  // namespace lamina::cuda
