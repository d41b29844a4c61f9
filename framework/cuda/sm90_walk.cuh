#pragma once

#include "lamina/cuda/sm90_params.h"

/// How a block's range of tiles turns into ring rows: both sides of the pipeline walk it alike.
namespace lamina::cuda::sm90 {

/// The part of a block's tile range that lies in one strip of one image.
struct Segment {
  std::int64_t image;
  int first_column;     // of the strip
  int begin, end;       // tiles within the strip
  int first_row, rows;  // ring rows that they need

  __device__ __forceinline__ Segment(const Params& p, int tile, int last) {
    const int strip = p.by_tiles_per_strip.divide(tile);
    image = p.strips == 1 ? strip : strip / p.strips;
    first_column = (strip - static_cast<int>(image) * p.strips) * p.strip_width;
    begin = tile - strip * p.tiles_per_strip;
    end = min(p.tiles_per_strip, begin + (last - tile));
    first_row = p.by_pitch.divide(begin * tile_pixels);
    rows = last_row(p, end - 1) - first_row + 1;
  }
  /// The last ring row that tile `t` of the strip reads.
  __device__ __forceinline__ static int last_row(const Params& p, int t) {
    return min(p.by_pitch.divide(t * tile_pixels + tile_pixels - 1), p.out_height - 1) + p.halo_rows;
  }
};

/// Steps through the ring rows of a range of tiles.
struct RowWalk {
  int tile, last;
  Segment segment;
  int index = 0;  // in the segment

  __device__ __forceinline__ RowWalk(const Params& p, int first_tile, int last_tile)
      : tile(first_tile), last(last_tile), segment(p, first_tile, last_tile) {}

  __device__ __forceinline__ bool done() const { return tile >= last; }
  __device__ __forceinline__ int number() const { return segment.first_row + index; }
  __device__ __forceinline__ void advance(const Params& p, int by) {
    index += by;
    while (index >= segment.rows && tile < last) {
      index -= segment.rows;
      tile += segment.end - segment.begin;
      if (tile < last) segment = Segment(p, tile, last);
    }
  }
};

/// A ring row by its number in the order of staging: number s lives in slot s % ring_rows.
struct RingCursor {
  int rows;
  int number = 0, slot = 0, parity = 0;

  __device__ __forceinline__ void advance(int by = 1) {
    number += by, slot += by;
    if (slot >= rows) slot -= rows, parity ^= 1;
  }
};

}  // namespace lamina::cuda::sm90
