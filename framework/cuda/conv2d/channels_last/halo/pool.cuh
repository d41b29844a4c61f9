#pragma once

// Max pooling of 2 x 2 pixels, two apart, of a rectangle's sums before they are stored: a thread has two neighbours of
// a row, and of the next row the two below them. The bias, a clamp and rounding come after the maximum: none of them
// changes an order.

#include "lamina/cuda/conv2d/channels_last/store.cuh"
#include "lamina/cuda/pool2d_window.cuh"

namespace lamina::cuda::channels_last::halo {

using pooling::larger;

/// Maxima of a rectangle of 8 pixels a row: n columns, each eight of which are two rows of four, column by column.
template <int n>
struct PooledRectangle {
  ptx::Corner corner;  // in the pooled map

  __device__ __forceinline__ ptx::Corner at(int column) const {
    return {corner.image, corner.row + column / 8 * 2 + column % 2, corner.column + column % 8 / 2};
  }
  /// The map is by columns: what it calls rows are the image's columns.
  __device__ __forceinline__ static void store_fragment(const CUtensorMap& map, std::uint32_t from, int channel,
                                                        ptx::Corner place) {
    ptx::store_box(map, from, channel, {place.image, place.column, place.row});
  }
  __device__ __forceinline__ void store(const CUtensorMap& map, std::uint32_t from, int channel, int column) const {
#pragma unroll
    for (int i = 0; i < n / 8; ++i)
      store_fragment(map, from + static_cast<unsigned>(i * 1024), channel, at(column + i * 8));
  }
};

__device__ __forceinline__ float largest(float a, float b, float c, float d) {
  return larger(larger(a, b), larger(c, d));
}

/// Recomputes this thread's maxima of sums that are not all finite, after the ordinary store.
template <class T, int n>
__device__ __forceinline__ void repair_pooled(const Arguments& args, const Piece<PooledRectangle<n / 4>>& piece,
                                              const float (&d)[n / 2]) {
  const ConvGeometry& g = args.geometry;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int height = g.out_height / 2, width = g.out_width / 2;
  std::uint32_t found = 0;
#pragma unroll
  for (int i = 0; i < n / 2; ++i) {
    // Bits as in the pooled piece: four for two rows of maxima, of both filters.
    if (rare(d[i], FilterRange())) found |= 1u << (i / 16 * 4 + i / 2 % 2 * 2 + i / 8 % 2);
  }
#pragma unroll 1
  for (; found != 0; found &= found - 1) {
    const int i = __ffs(static_cast<int>(found)) - 1;
    const ptx::Corner at = piece.place.at(i / 4 * 8 + lane % 4 * 2 + i % 2);
    const int filter = piece.first_filter + warp * 16 + lane / 4 + i / 2 % 2 * 8;
    if (at.row >= height || at.column >= width || filter >= g.out_channels) continue;
    float y = -__builtin_inff();
#pragma unroll 1
    for (int j = 0; j < 4; ++j) {
      const int row = at.image * g.out_height + 2 * at.row + j / 2;
      y = larger(y, exact_sum<T>(args, filter, row * g.out_width + 2 * at.column + j % 2, FilterRange()));
    }
    const std::size_t pixel = static_cast<std::size_t>(at.image * height + at.row) * static_cast<unsigned>(width) +
                              static_cast<unsigned>(at.column);
    write_finished<T>(args, pixel * static_cast<unsigned>(args.out_pitch) + static_cast<unsigned>(filter),
                      y + (i / 2 % 2 != 0 ? piece.bias[1] : piece.bias[0]));
  }
}

/// Stores the maxima of a piece.
template <class T, int n, int chunk>
__device__ __forceinline__ void store_pooled(const Arguments& args, const CUtensorMap& output,
                                             const StoreBuffers& buffers, const Piece<Rectangle>& whole,
                                             const float (&d)[n / 2]) {
  constexpr int columns = n / 4;
  const ptx::Corner& corner = whole.place.corner;
  const Piece<PooledRectangle<columns>> piece{whole.group,
                                              whole.first_filter,
                                              {{corner.image, corner.row / 2, corner.column / 2}},
                                              {whole.bias[0], whole.bias[1]}};
  float p[columns / 2];
#pragma unroll
  for (int i = 0; i < columns / 2; ++i) {
    const int first = i / 4 * 16 + i % 2 * 8 + i / 2 % 2 * 2;  // of the upper row's two
    p[i] = largest(d[first], d[first + 1], d[first + 4], d[first + 5]);
  }
  // In the first of the buffers that a piece which is not pooled would have; of two of 32 pixels, in both.
  const std::uint32_t buffer = ptx::shared_address(buffers.stores) +
                               static_cast<unsigned>((whole.group << args.log2_buffers) * chunk * step_bytes);
  Store<T, true, false, columns, columns, PooledRectangle<columns>> store{args, output, buffers, whole.group};
  store.template store_part<0, columns / 8, false, Addition::none, Finish::Kind::clamp>(piece, p, buffer, 0, true);
  if constexpr (Element<T>::repaired) {
    float check = 0.0f;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) check = fmaf(d[i], 0.0f, check);
    if (ptx::any_of_warpgroup(whole.group + 1, check != 0.0f)) {
      ptx::bulk_wait();
      ptx::sync_warpgroup(whole.group + 1);
      repair_pooled<T, n>(args, piece, d);
    }
  }
}

}  // namespace lamina::cuda::channels_last::halo
