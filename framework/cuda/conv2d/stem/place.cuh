#pragma once

#include <cstdint>

namespace lamina::cuda::stem {

/// Where a block's work lies, as share_out() says.
struct Place {
  int slice, row, column;  // its first output
  std::int64_t image;

  template <class Arguments>
  __device__ __forceinline__ explicit Place(const Arguments& args) {
    const unsigned tile = args.by_slices.quotient(blockIdx.x), line = args.by_tiles_x.quotient(tile);
    const unsigned above = args.by_tiles_y.quotient(line);
    slice = static_cast<int>(blockIdx.x - tile * static_cast<unsigned>(args.slices));
    column = static_cast<int>(tile - line * static_cast<unsigned>(args.tiles_x)) * args.columns;
    row = static_cast<int>(line - above * static_cast<unsigned>(args.tiles_y)) * args.rows;
    image = above;
  }
};

}  // namespace lamina::cuda::stem
