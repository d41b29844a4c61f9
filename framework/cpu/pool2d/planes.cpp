#include "lamina/cpu/pool2d/planes.h"

#include <algorithm>
#include <array>

#include "lamina/base/math.h"
#include "lamina/cpu/pool2d/window.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t least_read = 16384;  // elements by a task

/// Columns from the first tap of a window to its last.
std::int64_t reach(const PoolGeometry& g) { return (g.kernel_width - std::int64_t{1}) * g.dilation_width + 1; }

/// As how many columns those of each window count in an average: of `count` windows from `first` on.
void set_cells(const PoolGeometry& g, std::int64_t first, std::int64_t count, float* cells) {
  // Inside the row these are all that a window has, so that only those at its ends are looked at.
  const std::int64_t inside = detail::ceil_div<std::int64_t>(g.padding_width, g.stride_width) - first;
  const std::int64_t last = g.in_width + std::int64_t{g.padding_width} - reach(g);  // corner, from the padding on
  const std::int64_t behind = last < 0 ? 0 : last / g.stride_width + 1 - first;
  const std::int64_t begin = std::clamp<std::int64_t>(inside, 0, count), end = std::clamp(behind, begin, count);
  const auto look = [&](std::int64_t i) {
    const Covered columns = place_average(columns_of(g), static_cast<int>(first + i));
    cells[i] = static_cast<float>(std::max<std::int64_t>(columns.cells, 1));
  };
  for (std::int64_t i = 0; i < begin; ++i) look(i);
  std::fill(cells + begin, cells + end, static_cast<float>(g.kernel_width));
  for (std::int64_t i = end; i < count; ++i) look(i);
}

}  // namespace

bool pools_planes(PoolKind kind, const PoolGeometry& g) {
  const bool dilated = g.dilation_height != 1 || g.dilation_width != 1;
  const bool alike = kind == PoolKind::largest || (kind == PoolKind::average && !dilated);
  return alike && reach(g) <= PlaneWindows::most_columns / 2 && g.stride_width <= PlaneWindows::most_columns / 2;
}

void plane_pool2d(PoolKind kind, const PlanePoolKernel& kernel, const PoolGeometry& g, const float* input,
                  float* output, ThreadPool& pool) {
  const auto run = kind == PoolKind::largest ? kernel.largest : kernel.mean;
  const auto place = placing(kind);
  const Side vertical = rows_of(g);
  const std::int64_t at_once = (PlaneWindows::most_columns - reach(g)) / g.stride_width + 1;
  const std::int64_t read = std::max<std::int64_t>(std::int64_t{g.in_width} * g.kernel_height, 1);
  const std::int64_t step = std::max<std::int64_t>(least_read / read, 1), rows = g.planes * g.out_height;
  pool.parallel_for(detail::ceil_div(rows, step), [&](std::int64_t task, int) {
    std::array<float, PlaneWindows::most_columns> cells;
    std::int64_t looked_at = -1;  // the first of the windows whose cells these are
    for (std::int64_t row = task * step; row < std::min(rows, (task + 1) * step); ++row) {
      const Covered covered = place(vertical, static_cast<int>(row % g.out_height));
      const float* const plane = input + row / g.out_height * g.in_pixels();
      for (std::int64_t ow = 0; ow < g.out_width; ow += at_once) {
        PlaneWindows w = {.rows = covered.count,
                          .row = std::int64_t{g.in_width} * g.dilation_height,
                          .kernel = g.kernel_width,
                          .dilation = g.dilation_width,
                          .stride = g.stride_width,
                          .outputs = std::min(at_once, g.out_width - ow),
                          .output = output + row * g.out_width + ow,
                          .row_cells = static_cast<float>(std::max<std::int64_t>(covered.cells, 1)),
                          .cells = cells.data()};
        if (kind == PoolKind::average && looked_at != ow) set_cells(g, looked_at = ow, w.outputs, cells.data());
        const std::int64_t corner = ow * g.stride_width - g.padding_width;
        w.width = (w.outputs - 1) * g.stride_width + reach(g);
        w.begin = std::clamp<std::int64_t>(-corner, 0, w.width);
        w.end = std::clamp<std::int64_t>(g.in_width - corner, w.begin, w.width);
        w.first = covered.count > 0 && w.begin < w.end ? plane + covered.begin * g.in_width + corner + w.begin : plane;
        run(w);
      }
    }
  });
}

}  // namespace lamina::cpu
