#pragma once

// What a block of the tiled kernel knows of its place, and how pixels come into shared memory.

#include "lamina/cuda/conv2d/depthwise/arguments.h"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/ptx/shared.cuh"

namespace lamina::cuda::depthwise {

template <class T>
inline constexpr bool of_codes = std::is_integral_v<T>;
/// What weights and sums are: of codes whole numbers.
template <class T>
using Sum = std::conditional_t<of_codes<T>, int, float>;

/// Where a block's work lies.
struct Place {
  int slice, row, column, channel;  // its first output
  std::int64_t image;

  __device__ __forceinline__ Place(const Arguments& args, int rows, int columns) {
    // Slices of channels fastest: blocks that run together share pixels, or pages of memory.
    const unsigned at = blockIdx.x, tile = args.by_slices.quotient(at), line = args.by_tiles_x.quotient(tile);
    const unsigned above = args.by_tiles_y.quotient(line);
    slice = static_cast<int>(at) - static_cast<int>(tile) * args.slices, channel = slice * args.slice;
    column = (static_cast<int>(tile) - static_cast<int>(line) * args.tiles_x) * args.across * columns;
    row = (static_cast<int>(line) - static_cast<int>(above) * args.tiles_y) * args.down * rows;
    image = above;
  }
};

/// Which of a block's outputs are a thread's: `pack` channels of a tile of rows x columns.
struct Item {
  int lane, across, down;    // in the block
  int row, column, channel;  // the first

  __device__ __forceinline__ Item(const Arguments& args, const Place& place, int i, int rows, int columns, int pack) {
    const auto spot = args.by_lanes.quotient(static_cast<std::uint32_t>(i));
    lane = i - static_cast<int>(spot) * (args.slice / pack);
    down = static_cast<int>(args.by_across.quotient(spot)), across = static_cast<int>(spot) - down * args.across;
    row = place.row + down * rows, column = place.column + across * columns;
    channel = place.channel + lane * pack;
  }
};

/// Pixels of an image.
struct Rectangle {
  int top, left, height, width;
  __device__ __forceinline__ int pixels() const { return height * width; }
};

/// Starts the copies of the rectangle's pixels, one after the other, of each args.pieces copies, zeros from `real`
/// bytes on and outside of the image; a warp takes a row at a time. `source`: the image's first pixel, the next of
/// which is `pitch` bytes on.
template <bool all_inside, int bytes>
__device__ __forceinline__ void load_pixels(const Arguments& args, const Rectangle& from, const unsigned char* source,
                                            std::int64_t pitch, int real, std::uint32_t to, int pixel_bytes) {
  const ConvGeometry& g = args.geometry;
  const int lane = static_cast<int>(threadIdx.x) % 32, warps = static_cast<int>(blockDim.x) / 32;
  for (int y = static_cast<int>(threadIdx.x) / 32; y < from.height; y += warps) {
    const int row = from.top + y;
    const bool row_inside = all_inside || (row >= 0 && row < g.in_height);
    const unsigned char* first = source + (row_inside ? row : 0) * g.in_width * pitch;
    const std::uint32_t line = to + static_cast<std::uint32_t>(y * from.width * pixel_bytes);
    for (int i = lane; i < from.width * args.pieces; i += 32) {
      const int x = static_cast<int>(args.by_pieces.quotient(static_cast<std::uint32_t>(i)));
      const int column = from.left + x, at = (i - x * args.pieces) * bytes;
      const bool wanted = at < real && row_inside && (all_inside || (column >= 0 && column < g.in_width));
      const unsigned char* beside = args.padding != nullptr ? args.padding : first;
      ptx::copy_async<bytes>(line + static_cast<std::uint32_t>(x * pixel_bytes + at),
                             wanted ? first + column * pitch + at : beside, wanted || args.padding != nullptr);
    }
  }
}

template <bool all_inside>
__device__ __forceinline__ void load_pixels(const Arguments& args, const Rectangle& from, const unsigned char* source,
                                            std::int64_t pitch, int real, std::uint32_t to, int pixel_bytes) {
  if (args.copy_bytes == 16) return load_pixels<all_inside, 16>(args, from, source, pitch, real, to, pixel_bytes);
  if (args.copy_bytes == 8) return load_pixels<all_inside, 8>(args, from, source, pitch, real, to, pixel_bytes);
  load_pixels<all_inside, 4>(args, from, source, pitch, real, to, pixel_bytes);
}

}  // namespace lamina::cuda::depthwise
