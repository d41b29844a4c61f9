#pragma once

// Where the columns of a tile, its output pixels, lie in the output, and in what is added to it.

#include "lamina/cuda/conv2d/channels_last/arguments.h"
#include "lamina/cuda/ptx/tensor_copy.cuh"

namespace lamina::cuda::channels_last {

/// One after the other in memory, across the ends of rows and images.
struct Run {
  int first = 0;

  /// The pixel of a column; negative if it is nobody's.
  __device__ __forceinline__ int pixel(const Arguments& args, int column) const {
    return first + column < args.pixels ? first + column : -1;
  }
  /// The map's box of pixels, from a column on, and of 128 bytes of channels.
  __device__ __forceinline__ void load(void* to, const CUtensorMap& map, int channel, int column,
                                       std::uint64_t* barrier) const {
    ptx::load_box(to, map, channel, first + column, barrier);
  }
  __device__ __forceinline__ void store(const CUtensorMap& map, std::uint32_t from, int channel, int column) const {
    ptx::store_box(map, from, channel, first + column);
  }
};

/// Eight in each row of a rectangle of one image, which may reach past the image's last row and column.
struct Rectangle {
  ptx::Corner corner;

  __device__ __forceinline__ ptx::Corner below(int column) const {
    return {corner.image, corner.row + column / rectangle_width, corner.column};
  }
  __device__ __forceinline__ int pixel(const Arguments& args, int column) const {
    const int row = corner.row + column / rectangle_width, x = corner.column + column % rectangle_width;
    const ConvGeometry& g = args.geometry;
    return row < g.out_height && x < g.out_width ? (corner.image * g.out_height + row) * g.out_width + x : -1;
  }
  __device__ __forceinline__ void load(void* to, const CUtensorMap& map, int channel, int column,
                                       std::uint64_t* barrier) const {
    ptx::load_box(to, map, channel, below(column), barrier);
  }
  __device__ __forceinline__ void store(const CUtensorMap& map, std::uint32_t from, int channel, int column) const {
    ptx::store_box(map, from, channel, below(column));
  }
};

}  // namespace lamina::cuda::channels_last
