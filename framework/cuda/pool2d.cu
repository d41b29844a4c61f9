// Pooling: one thread per output, neighbours in a warp along a row, so that their windows overlap in L1.
//
// A block owns 256 consecutive outputs of [planes, OH, OW]. Shared memory: none. Preconditions: a valid geometry.
// The limit is memory: each input is fetched from it about once, the overlaps come from cache.

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/cuda/check.h"
#include "lamina/cuda/pool2d.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

enum class Kind { largest, average, adaptive };

__device__ float largest(const PoolGeometry& g, const float* plane, int oh, int ow) {
  float result = -INFINITY;
  for (int kh = 0; kh < g.kernel_height; ++kh) {
    const std::int64_t ih =
        std::int64_t{oh} * g.stride_height - g.padding_height + std::int64_t{kh} * g.dilation_height;
    if (ih < 0 || ih >= g.in_height) continue;
    for (int kw = 0; kw < g.kernel_width; ++kw) {
      const std::int64_t iw = std::int64_t{ow} * g.stride_width - g.padding_width + std::int64_t{kw} * g.dilation_width;
      if (iw < 0 || iw >= g.in_width) continue;
      const float x = plane[ih * g.in_width + iw];
      // Not fmaxf, which drops NaN.
      result = x <= result || result != result ? result : x;
    }
  }
  return result;
}

__device__ float sum(const float* plane, int width, std::int64_t top, std::int64_t bottom, std::int64_t left,
                     std::int64_t right) {
  float total = 0;
  for (std::int64_t ih = top; ih < bottom; ++ih) {
    float row = 0;  // rows are summed apart: no long chain of additions
    for (std::int64_t iw = left; iw < right; ++iw) row += plane[ih * width + iw];
    total += row;
  }
  return total;
}

/// As in cpu/pool2d.cpp.
struct AverageWindow {
  std::int64_t begin, end, cells;

  __device__ AverageWindow(int index, int extent, int kernel, int stride, int padding) {
    const std::int64_t first = std::int64_t{index} * stride - padding;
    const std::int64_t last = min(first + kernel, std::int64_t{extent} + padding);
    cells = last - first;
    begin = max(first, std::int64_t{0});
    end = min(last, std::int64_t{extent});
  }
};

__device__ float average(const PoolGeometry& g, const float* plane, int oh, int ow) {
  const AverageWindow rows(oh, g.in_height, g.kernel_height, g.stride_height, g.padding_height);
  const AverageWindow columns(ow, g.in_width, g.kernel_width, g.stride_width, g.padding_width);
  if (rows.begin >= rows.end || columns.begin >= columns.end) return 0;
  const std::int64_t cells =
      g.count_padding ? rows.cells * columns.cells : (rows.end - rows.begin) * (columns.end - columns.begin);
  return sum(plane, g.in_width, rows.begin, rows.end, columns.begin, columns.end) / static_cast<float>(cells);
}

__device__ float adaptive(const PoolGeometry& g, const float* plane, std::int64_t oh, std::int64_t ow) {
  const std::int64_t top = oh * g.in_height / g.out_height;
  const std::int64_t bottom = ((oh + 1) * g.in_height + g.out_height - 1) / g.out_height;
  const std::int64_t left = ow * g.in_width / g.out_width;
  const std::int64_t right = ((ow + 1) * g.in_width + g.out_width - 1) / g.out_width;
  return sum(plane, g.in_width, top, bottom, left, right) / static_cast<float>((bottom - top) * (right - left));
}

template <Kind kind>
__global__ void __launch_bounds__(threads) pool2d_kernel(PoolGeometry g,
                                                         const float* __restrict__ input,  // [planes, H, W]
                                                         float* __restrict__ output) {     // [planes, OH, OW]
  const std::int64_t out_pixels = std::int64_t{g.out_height} * g.out_width;
  const std::int64_t in_pixels = std::int64_t{g.in_height} * g.in_width;
  const std::int64_t count = g.planes * out_pixels;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const std::int64_t plane = i / out_pixels;
    const std::int64_t pixel = i - plane * out_pixels;
    const auto oh = static_cast<int>(pixel / g.out_width);
    const auto ow = static_cast<int>(pixel - std::int64_t{oh} * g.out_width);
    const float* image = input + plane * in_pixels;
    if constexpr (kind == Kind::largest) output[i] = largest(g, image, oh, ow);
    if constexpr (kind == Kind::average) output[i] = average(g, image, oh, ow);
    if constexpr (kind == Kind::adaptive) output[i] = adaptive(g, image, oh, ow);
  }
}

template <Kind kind>
void launch(int device, const PoolGeometry& g, const float* input, float* output, Stream stream) {
  const std::int64_t count = g.planes * g.out_pixels();
  if (count == 0) return;
  const DeviceGuard guard(device);
  const std::int64_t blocks = std::min<std::int64_t>((count + threads - 1) / threads, std::numeric_limits<int>::max());
  pool2d_kernel<kind>
      <<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(g, input, output);
  check_launch();
}

}  // namespace

void max_pool2d(int device, const PoolGeometry& geometry, const float* input, float* output, Stream stream) {
  launch<Kind::largest>(device, geometry, input, output, stream);
}

void avg_pool2d(int device, const PoolGeometry& geometry, const float* input, float* output, Stream stream) {
  launch<Kind::average>(device, geometry, input, output, stream);
}

void adaptive_avg_pool2d(int device, const PoolGeometry& geometry, const float* input, float* output, Stream stream) {
  launch<Kind::adaptive>(device, geometry, input, output, stream);
}

}  // namespace lamina::cuda
