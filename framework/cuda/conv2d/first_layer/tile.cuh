#pragma once

#include "lamina/cuda/conv2d/first_layer/params.h"
#include "lamina/cuda/conv2d/first_layer/walk.cuh"

/// A tile's place in the output, seen from the ring (its 64 positions) and from memory (its pixels).
namespace lamina::cuda::first_layer {

/// Where the rows of a tile go. Row i of the tile is ring position first + i; positions beyond a strip's width are the
/// columns that windows reach into, not outputs.
struct TileMap {
  int row;           // output row of tile row 0
  int end_row;       // behind the last one that is wanted
  int column;        // tile row 0's, within the strip, 0 .. pitch - 1
  int first_column;  // of the strip
  std::int64_t image;

  __device__ __forceinline__ TileMap(const Params& p, const Segment& segment, int tile)
      : end_row(segment.end_row), first_column(segment.first_column), image(segment.image) {
    const int down = p.by_pitch.divide(tile * tile_pixels);
    row = segment.base_row + down;
    column = tile * tile_pixels - down * p.pitch;
  }
};

/// What a storing warpgroup tells the computing one about the tile to come: where tile row i goes, in bytes (-1:
/// nowhere), in the store buffer (NHWC) or in each of its rows (NCHW, f32, one strip); and for NCHW the address of the
/// tile's first pixel modulo 16 bytes, in floats.
struct PixelPlaces {
  int offset[tile_pixels];
  int base;
};

/// Offset within the output plane of tile row i, or -1.
__device__ __forceinline__ int pixel_offset(const Params& p, const TileMap& tile, int i) {
  const int position = tile.column + i;
  const int down = p.by_pitch.divide(position);
  const int row = tile.row + down, column = position - down * p.pitch;
  const int x = tile.first_column + column;
  return row < tile.end_row && column < p.strip_width && x < p.out_width ? row * p.out_width + x : -1;
}

/// With one strip, a tile's pixels are consecutive in memory: [start, start + count) of the output plane.
struct PixelRun {
  int start, count;

  __device__ __forceinline__ PixelRun(const Params& p, const TileMap& tile) {
    // A tile may begin or end in the overhang behind a row.
    start = tile.row * p.out_width + min(tile.column, p.out_width);
    const int position = tile.column + tile_pixels - 1, down = p.by_pitch.divide(position);
    const int stop = (tile.row + down) * p.out_width + min(position - down * p.pitch + 1, p.out_width);
    count = max(min(stop, p.out_height * p.out_width) - start, 0);
  }
  /// Tile row of pixel d of the run; any row for d outside it.
  __device__ __forceinline__ int tile_row(const Params& p, const TileMap& tile, int d) const {
    const int offset = start + max(min(d, count - 1), 0);
    const int row = p.by_out_width.divide(offset);
    return min((row - tile.row) * p.pitch + offset - row * p.out_width - tile.column, tile_pixels - 1);
  }
};

}  // namespace lamina::cuda::first_layer
