#pragma once

#include <algorithm>
#include <cstdint>

#include "lamina/base/math.h"
#include "lamina/kernel/problems.h"

/// Which pixels along one side of an image a pooling window covers.
namespace lamina::cpu {

/// [begin, end) of the window of output `index` of an average, cut at the input's edges. Its cells on the padding count
/// too, but none that ceil_mode lets it reach beyond: torch.nn.AvgPool2d's rule.
struct AverageWindow {
  std::int64_t begin = 0, end = 0;
  std::int64_t cells = 0;  // with those on the padding

  AverageWindow(int index, int extent, int kernel, int stride, int padding) {
    const std::int64_t first = std::int64_t{index} * stride - padding;
    const std::int64_t last = std::min(first + kernel, std::int64_t{extent} + padding);
    cells = last - first;
    begin = std::max<std::int64_t>(first, 0);
    end = std::min<std::int64_t>(last, extent);
  }
};

/// [begin, end) of window `index` of `out` that cover `in` pixels.
struct CoveringWindow {
  std::int64_t begin, end;
};
inline CoveringWindow covering(std::int64_t index, std::int64_t in, std::int64_t out) {
  return {index * in / out, detail::ceil_div((index + 1) * in, out)};
}

/// Taps [first, last) of a window, `dilation` pixels apart from its corner on, that are inside the image.
struct InsideTaps {
  std::int64_t first = 0, last;
  InsideTaps(std::int64_t corner, int extent, int kernel, int dilation) : last(kernel) {
    // Nearly all windows, which need no division.
    if (corner >= 0 && corner + (kernel - std::int64_t{1}) * dilation < extent) return;
    if (corner < 0) first = detail::ceil_div(-corner, std::int64_t{dilation});
    last = corner >= extent ? 0
                            : std::min<std::int64_t>(detail::ceil_div(extent - corner, std::int64_t{dilation}), kernel);
    last = std::max(first, last);
  }
};

/// What one side of an image is pooled by.
struct Side {
  int extent, out, kernel, stride, padding, dilation;
  bool count_padding;
};

/// The pixels of a side that window `index` covers, and as how many they count in an average.
struct Covered {
  std::int64_t begin, count, cells;
};

/// Pixels that lie a dilation apart, the largest of which is sought.
inline Covered place_largest(const Side& s, int index) {
  const std::int64_t corner = std::int64_t{index} * s.stride - s.padding;
  const InsideTaps taps(corner, s.extent, s.kernel, s.dilation);
  return {corner + taps.first * s.dilation, taps.last - taps.first, 1};
}

inline Covered place_average(const Side& s, int index) {
  const AverageWindow w(index, s.extent, s.kernel, s.stride, s.padding);
  const std::int64_t count = std::max<std::int64_t>(w.end - w.begin, 0);
  return {w.begin, count, s.count_padding ? w.cells : count};
}

inline Covered place_covering(const Side& s, int index) {
  const auto [first, last] = covering(index, s.extent, s.out);
  return {first, last - first, last - first};
}

/// How the windows of a kind lie.
inline auto placing(PoolKind kind) {
  return kind == PoolKind::largest ? place_largest : kind == PoolKind::average ? place_average : place_covering;
}

inline Side rows_of(const PoolGeometry& g) {
  return {g.in_height,      g.out_height,      g.kernel_height, g.stride_height,
          g.padding_height, g.dilation_height, g.count_padding};
}
inline Side columns_of(const PoolGeometry& g) {
  return {g.in_width, g.out_width, g.kernel_width, g.stride_width, g.padding_width, g.dilation_width, g.count_padding};
}

}  // namespace lamina::cpu
