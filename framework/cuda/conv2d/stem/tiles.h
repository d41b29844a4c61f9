#pragma once

#include <cstdint>

#include "lamina/base/math.h"
#include "lamina/cuda/divider.h"
#include "lamina/kernel/conv_geometry.h"

/// How first layers share their outputs out over blocks, and their filters over the lanes of a warp: `Arguments` are
/// those of either kernel.
namespace lamina::cuda::stem {

/// Blocks for each multiprocessor, of which two are there at a time, or more.
inline constexpr std::int64_t wave = 3;

/// Fills in which outputs a block has, of one of some slices of the filters; the number of blocks. Of as many rows as
/// leave a wave: the more rows, the fewer pixels are read twice. `fragment`: columns that a warp has at a time.
template <class Arguments>
std::int64_t share_out(Arguments& a, const ConvGeometry& g, int slices, int multiprocessors, int fragment = 16) {
  constexpr int max_fragments = 8, max_rows = 8;
  std::int64_t blocks = 0;
  a.slices = slices;
  a.tiles_x = detail::ceil_div(g.out_width, max_fragments * fragment);
  a.columns = detail::round_up(detail::ceil_div(g.out_width, a.tiles_x), fragment);
  for (a.rows = max_rows;; a.rows /= 2) {
    a.tiles_y = detail::ceil_div(g.out_height, a.rows);
    blocks = g.batch * a.tiles_x * a.tiles_y * a.slices;
    if (a.rows == 1 || blocks >= wave * multiprocessors) break;
  }
  a.by_slices = Divider(a.slices), a.by_tiles_x = Divider(a.tiles_x), a.by_tiles_y = Divider(a.tiles_y);
  a.by_fragments = Divider(a.columns / fragment);
  return blocks;
}

}  // namespace lamina::cuda::stem
