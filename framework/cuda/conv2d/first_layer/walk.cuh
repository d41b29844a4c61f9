#pragma once

#include "lamina/cuda/conv2d/first_layer/params.h"

/// How a block's range of units (tiles, or rows of the pooled map) turns into tiles and ring rows: all sides of the
/// pipeline walk it alike.
namespace lamina::cuda::first_layer {

/// The part of a block's range that lies in one strip of one image: tiles [begin, end), tile 0 beginning at the strip's
/// first column of output row base_row.
struct Segment {
  std::int64_t image;
  int first_column;       // of the strip
  int base_row, end_row;  // output rows [base_row, end_row) are wanted
  int begin, end;         // tiles
  int first_row, rows;    // ring rows that they need
  int units;              // of the block's range
  int first_pooled;       // row of the pooled map

  __device__ __forceinline__ Segment(const Params& p, int at, int last) {
    if (p.pool_kernel != 0) {
      image = p.by_pool_height.divide(at);
      first_column = 0;
      first_pooled = at - static_cast<int>(image) * p.pool_height;
      units = min(p.pool_height - first_pooled, last - at);
      base_row = max(first_pooled * p.pool_stride - p.pool_padding, 0);
      end_row = min((first_pooled + units - 1) * p.pool_stride - p.pool_padding + p.pool_kernel, p.out_height);
      begin = 0;
      end = ((end_row - base_row) * p.pitch - (p.column_units - 1) + tile_pixels - 1) / tile_pixels;
    } else {
      const int strip = p.by_tiles_per_strip.divide(at);
      image = p.strips == 1 ? strip : strip / p.strips;
      first_column = (strip - static_cast<int>(image) * p.strips) * p.strip_width;
      first_pooled = 0;
      base_row = 0;
      end_row = p.out_height;
      begin = at - strip * p.tiles_per_strip;
      end = min(p.tiles_per_strip, begin + (last - at));
      units = end - begin;
    }
    first_row = base_row + p.by_pitch.divide(begin * tile_pixels);
    rows = last_row(p, end - 1) - first_row + 1;
  }
  /// The last ring row that tile `t` reads.
  __device__ __forceinline__ int last_row(const Params& p, int t) const {
    return min(base_row + p.by_pitch.divide(t * tile_pixels + tile_pixels - 1), end_row - 1) + p.halo_rows;
  }
};

/// Steps through the ring rows of a range.
struct RowWalk {
  int at, last;
  Segment segment;
  int index = 0;  // in the segment

  __device__ __forceinline__ RowWalk(const Params& p, int first, int last_unit)
      : at(first), last(last_unit), segment(p, first, last_unit) {}

  __device__ __forceinline__ bool done() const { return at >= last; }
  __device__ __forceinline__ int number() const { return segment.first_row + index; }
  __device__ __forceinline__ void advance(const Params& p, int by) {
    index += by;
    while (index >= segment.rows && at < last) {
      index -= segment.rows;
      at += segment.units;
      if (at < last) segment = Segment(p, at, last);
    }
  }
};

/// Steps through the tiles of a range.
struct TileWalk {
  int at, last;
  Segment segment;
  int tile;  // of the segment

  __device__ __forceinline__ TileWalk(const Params& p, int first, int last_unit)
      : at(first), last(last_unit), segment(p, first, last_unit), tile(segment.begin) {}

  __device__ __forceinline__ bool done() const { return at >= last; }
  __device__ __forceinline__ void advance(const Params& p) {
    if (++tile < segment.end) return;
    at += segment.units;
    if (at >= last) return;
    segment = Segment(p, at, last);
    tile = segment.begin;
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

}  // namespace lamina::cuda::first_layer
