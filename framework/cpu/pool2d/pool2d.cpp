#include "lamina/cpu/pool2d/pool2d.h"

#include <algorithm>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cpu/pool2d/window.h"

namespace lamina::cpu {

std::int64_t pool2d_row_length(const PoolGeometry& g) {
  const std::int64_t windows =
      std::int64_t{g.out_width - 1} * g.stride_width + std::int64_t{g.kernel_width - 1} * g.dilation_width + 1;
  // The windows of a row, and the whole input behind the padding; one more, since stride 2 reads pairs. Whole cache
  // lines, or two threads would wait for each other.
  constexpr std::int64_t line = 16;
  return detail::round_up(std::max(windows, std::int64_t{g.in_width} + g.padding_width) + 1, line);
}

std::size_t pool2d_workspace(const PoolGeometry& g, int threads) {
  return static_cast<std::size_t>(pool2d_rows * pool2d_row_length(g) * threads) * sizeof(float);
}

namespace {

/// Calls body(plane, rows) for all planes, `rows` being the thread's own part of the workspace, `neutral` at first.
/// Threads take stretches of planes, some for each: neighbouring planes share cache lines, and fetching a task costs
/// more than a small plane.
template <class Body>
void for_planes(const PoolGeometry& g, ThreadPool& pool, float* workspace, float neutral, const Body& body) {
  const std::int64_t length = pool2d_rows * pool2d_row_length(g);
  const std::int64_t tasks = std::min<std::int64_t>(g.planes, std::int64_t{8} * pool.threads());
  pool.parallel_for(tasks, [&](std::int64_t task, int worker) {
    float* const rows = workspace + worker * length;
    std::fill_n(rows, length, neutral);
    const std::int64_t end = g.planes * (task + 1) / tasks;
    for (std::int64_t plane = g.planes * task / tasks; plane < end; ++plane) body(plane, rows);
  });
}

void max_pool2d(const PoolKernel& kernel, const PoolGeometry& g, const float* input, float* output, ThreadPool& pool,
                float* workspace) {
  constexpr float neutral = -std::numeric_limits<float>::infinity();
  for_planes(g, pool, workspace, neutral, [&](std::int64_t plane, float* rows) {
    kernel.largest(g, input + plane * g.in_pixels(), rows, output + plane * g.out_pixels());
  });
}

void avg_pool2d(const PoolKernel& kernel, const PoolGeometry& g, const float* input, float* output, ThreadPool& pool,
                float* workspace) {
  for_planes(g, pool, workspace, 0.0f, [&](std::int64_t plane, float* rows) {
    float* out = output + plane * g.out_pixels();
    kernel.sum(g, input + plane * g.in_pixels(), rows, out);
    for (int oh = 0; oh < g.out_height; ++oh, out += g.out_width) {
      const AverageWindow height(oh, g.in_height, g.kernel_height, g.stride_height, g.padding_height);
      for (int ow = 0; ow < g.out_width; ++ow) {
        const AverageWindow columns(ow, g.in_width, g.kernel_width, g.stride_width, g.padding_width);
        const bool empty = height.begin >= height.end || columns.begin >= columns.end;
        out[ow] = empty ? 0.0f : out[ow] / static_cast<float>(cells(g, height, columns));
      }
    }
  });
}

void adaptive_avg_pool2d(const PoolGeometry& g, const float* input, float* output, ThreadPool& pool, float* workspace) {
  // Networks end in this so that other image sizes fit too; at the usual size each window is one pixel.
  if (g.in_height == g.out_height && g.in_width == g.out_width) {
    std::copy_n(input, g.planes * g.in_pixels(), output);
    return;
  }
  for_planes(g, pool, workspace, 0.0f, [&](std::int64_t plane, float* row) {
    const float* image = input + plane * g.in_pixels();
    float* out = output + plane * g.out_pixels();
    for (int oh = 0; oh < g.out_height; ++oh, out += g.out_width) {
      const auto [first, last] = covering(oh, g.in_height, g.out_height);
      std::fill_n(row, g.in_width, 0.0f);
      for (std::int64_t ih = first; ih < last; ++ih) {
        for (int i = 0; i < g.in_width; ++i) row[i] += image[ih * g.in_width + i];
      }
      for (int ow = 0; ow < g.out_width; ++ow) {
        const auto [left, right] = covering(ow, g.in_width, g.out_width);
        float sum = 0;
        for (std::int64_t iw = left; iw < right; ++iw) sum += row[iw];
        out[ow] = sum / static_cast<float>((last - first) * (right - left));
      }
    }
  });
}

}  // namespace

void pool2d(PoolKind kind, const PoolKernel& kernel, const PoolGeometry& g, const float* input, float* output,
            ThreadPool& pool, float* workspace) {
  switch (kind) {
    case PoolKind::largest: return max_pool2d(kernel, g, input, output, pool, workspace);
    case PoolKind::average: return avg_pool2d(kernel, g, input, output, pool, workspace);
    case PoolKind::adaptive: return adaptive_avg_pool2d(g, input, output, pool, workspace);
  }
}

}  // namespace lamina::cpu
