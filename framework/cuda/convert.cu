// Conversion between element types and layouts.
//
// Another layout: a transposition of [rows, columns] matrices, one for each image, through tiles of 32 x 32 in shared
// memory (4.2 KB; a pitch of 33 keeps columns free of bank conflicts), so that reads and writes are both coalesced. A
// block of 32 x 8 threads owns a tile at a time. Of up to 8 channels, which would fill a quarter of a tile, a thread
// takes all those of a pixel instead. The same layout: a thread converts 4 neighbouring elements.
// Preconditions: none. The limit is memory.

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/kernels.h"

namespace lamina::cuda {

/// Codes on their way from one layout to another.
template <>
__device__ inline std::uint8_t from_f32<std::uint8_t>(float x) {
  return static_cast<std::uint8_t>(x);
}

namespace {

constexpr int tile = 32;
constexpr int tile_rows = 8;
constexpr int threads = 256;
constexpr int vector = 4;
constexpr std::int64_t few_channels = 8;

template <class From, class To>
__global__ void __launch_bounds__(tile* tile_rows)
    transpose_kernel(const From* __restrict__ input,  // [images, rows, columns]
                     To* __restrict__ output,         // [images, columns, rows]
                     std::int64_t images, std::int64_t rows, std::int64_t columns) {
  __shared__ float shared[tile][tile + 1];
  const std::int64_t row_tiles = (rows + tile - 1) / tile, column_tiles = (columns + tile - 1) / tile;
  const auto x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (std::int64_t t = blockIdx.x; t < images * row_tiles * column_tiles; t += gridDim.x) {
    const std::int64_t image = t / (row_tiles * column_tiles);
    const std::int64_t row = t / column_tiles % row_tiles * tile, column = t % column_tiles * tile;
    const std::int64_t offset = image * rows * columns;
    for (int i = y; i < tile && row + i < rows; i += tile_rows) {
      if (column + x < columns) shared[i][x] = to_f32(input[offset + (row + i) * columns + column + x]);
    }
    __syncthreads();
    for (int i = y; i < tile && column + i < columns; i += tile_rows) {
      if (row + x < rows) output[offset + (column + i) * rows + row + x] = from_f32<To>(shared[x][i]);
    }
    __syncthreads();
  }
}

/// Planes to pixels, or pixels to planes: the steps are from channel to channel and from pixel to pixel.
template <class From, class To>
__global__ void __launch_bounds__(threads)
    few_channels_kernel(const From* __restrict__ input, To* __restrict__ output, Activation a, bool planes) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < a.images * a.pixels; i += step) {
    const std::int64_t image = i / a.pixels;
    const std::int64_t plane = image * a.channels * a.pixels + (i - image * a.pixels), pixel = i * a.channels;
    for (std::int64_t c = 0; c < a.channels; ++c) {
      const std::int64_t from = planes ? plane + c * a.pixels : pixel + c,
                         to = planes ? pixel + c : plane + c * a.pixels;
      output[to] = from_f32<To>(to_f32(input[from]));
    }
  }
}

template <class From, class To>
__global__ void __launch_bounds__(threads)
    convert_kernel(const From* __restrict__ input, To* __restrict__ output, std::int64_t vectors, std::int64_t count) {
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = first; i < vectors; i += step) {
    const Pack<From, vector> in = reinterpret_cast<const Pack<From, vector>*>(input)[i];
    Pack<To, vector> out;
#pragma unroll
    for (int j = 0; j < vector; ++j) out.values[j] = from_f32<To>(to_f32(in.values[j]));
    reinterpret_cast<Pack<To, vector>*>(output)[i] = out;
  }
  for (std::int64_t i = vectors * vector + first; i < count; i += step) output[i] = from_f32<To>(to_f32(input[i]));
}

template <class From, class To>
void launch(const Activation& a, Layout from, const From* input, Layout to, To* output, cudaStream_t stream) {
  if (detail::same_order({a.images, a.channels, a.pixels, 1}, from, to)) {
    const std::int64_t vectors = aligned_to_16(input) && aligned_to_16(output) ? a.size() / vector : 0;
    const std::int64_t work = vectors > 0 ? vectors : a.size();
    convert_kernel<<<grid_for(work, threads), threads, 0, stream>>>(input, output, vectors, a.size());
  } else if (a.channels <= few_channels) {
    few_channels_kernel<<<grid_for(a.images * a.pixels, threads), threads, 0, stream>>>(input, output, a,
                                                                                        from == Layout::nchw);
  } else {
    const bool planes = from == Layout::nchw;
    const std::int64_t rows = planes ? a.channels : a.pixels, columns = planes ? a.pixels : a.channels;
    const auto tiles =
        a.images * detail::ceil_div<std::int64_t>(rows, tile) * detail::ceil_div<std::int64_t>(columns, tile);
    transpose_kernel<<<grid_for(tiles, 1), dim3(tile, tile_rows), 0, stream>>>(input, output, a.images, rows, columns);
  }
  check_launch();
}

}  // namespace

void convert(int device, const Activation& activation, Format from, const void* input, Format to, void* output,
             Stream stream) {
  if (activation.size() == 0) return;
  const DeviceGuard guard(device);
  if (size_of(from.dtype) == 1) {
    return launch(activation, from.layout, static_cast<const std::uint8_t*>(input), to.layout,
                  static_cast<std::uint8_t*>(output), static_cast<cudaStream_t>(stream));
  }
  with_element_type(from.dtype, [&](auto* source) {
    with_element_type(to.dtype, [&](auto* target) {
      launch(activation, from.layout, static_cast<decltype(source)>(const_cast<void*>(input)), to.layout,
             static_cast<decltype(target)>(output), static_cast<cudaStream_t>(stream));
    });
  });
}

}  // namespace lamina::cuda
