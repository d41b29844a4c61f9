#pragma once

// Depthwise convolution between channels-last tensors: output channel c is input channel c with a filter of its own.
// Memory takes the time, so each input pixel comes from memory about once and is used from registers.
//
// Tiled (square kernels of 3, 5, 7, strides 1 and 2): a block owns `lanes` packs of channels and threads_x x threads_y
// tiles of pixels, one thread a tile: columns x rows outputs of one pack. The block's input, with its halo, comes into
// shared memory by cp.async, zeros where the padding is; a thread then walks down its input rows, each of which is read
// and converted to f32 once and used for all output rows that see it. Weights of 3x3 stay in registers, others come
// from shared memory, each for a row of outputs.
// Shared memory: tile_height * tile_width * pixel_bytes, and behind it weights of KH * KW * lanes * pack f32.
// Preconditions: Arguments filled in by depthwise.cpp; compute capability 8.0 for the tiled ones.
//
// Sums are in f32, tap by tap in the order of the kernel's rows; the general kernel adds up row by row.

#include "lamina/cuda/conv2d/depthwise/general.cuh"
#include "lamina/cuda/conv2d/windows.cuh"
#include "lamina/cuda/ptx/copy.cuh"

namespace lamina::cuda::depthwise {

/// Where a block's work lies.
struct Place {
  int image, row, column, channel;  // its first output

  __device__ __forceinline__ Place(const Arguments& args, int rows, int columns, int pack) {
    // Chunks of channels fastest: blocks that run together share pages of memory.
    unsigned rest = blockIdx.x;
    channel = static_cast<int>(rest % static_cast<unsigned>(args.chunks)) * args.lanes * pack;
    rest /= static_cast<unsigned>(args.chunks);
    column = static_cast<int>(rest % static_cast<unsigned>(args.tiles_x)) * args.threads_x * columns;
    rest /= static_cast<unsigned>(args.tiles_x);
    row = static_cast<int>(rest % static_cast<unsigned>(args.tiles_y)) * args.threads_y * rows;
    image = static_cast<int>(rest / static_cast<unsigned>(args.tiles_y));
  }
};

/// Starts the copies of the block's input: a warp takes a row of the tile at a time.
template <class T, int bytes>
__device__ __forceinline__ void load_tile(const Arguments& args, const Place& place, int top, int left, int channels,
                                          std::uint32_t tile) {
  const ConvGeometry& g = args.geometry;
  const int pieces = args.pieces, real = channels * static_cast<int>(sizeof(T)) / bytes;  // of a pixel
  const int lane = static_cast<int>(threadIdx.x) % 32, warps = static_cast<int>(blockDim.x) / 32;
  const auto pitch = static_cast<std::int64_t>(g.in_channels) * static_cast<int>(sizeof(T));
  for (int y = static_cast<int>(threadIdx.x) / 32; y < args.tile_height; y += warps) {
    const int row = top + y;
    const bool row_inside = row >= 0 && row < g.in_height;
    const auto* source =
        static_cast<const unsigned char*>(args.input) +
        ((static_cast<std::int64_t>(place.image) * g.in_height + (row_inside ? row : 0)) * g.in_width) * pitch +
        place.channel * static_cast<int>(sizeof(T));
    const std::uint32_t to = tile + static_cast<std::uint32_t>(y * args.tile_width * args.pixel_bytes);
    for (int i = lane; i < args.tile_width * pieces; i += 32) {
      const int x = static_cast<int>(args.by_pieces.quotient(static_cast<std::uint32_t>(i))), piece = i - x * pieces;
      const int column = left + x;
      const bool inside = row_inside && column >= 0 && column < g.in_width && piece < real;
      ptx::copy_async<bytes>(to + static_cast<std::uint32_t>(x * args.pixel_bytes + piece * bytes),
                             source + (inside ? column * pitch + piece * bytes : 0), inside);
    }
  }
}

template <class T, int kernel, int stride, int pack, int columns, int rows>
__global__ void __launch_bounds__(max_threads, 2) tiled_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  constexpr bool in_registers = kernel * kernel * pack <= 36;
  extern __shared__ __align__(16) unsigned char memory[];
  let_successor_start();
  const ConvGeometry& g = args.geometry;
  const Place place(args, rows, columns, pack);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % args.lanes, spot = thread / args.lanes;
  const int across = spot % args.threads_x, down = spot / args.threads_x;
  const int channel = place.channel + lane * pack;
  const int channels = min(args.lanes * pack, g.in_channels - place.channel);
  auto* weights = reinterpret_cast<float*>(memory + args.tile_height * args.tile_width * args.pixel_bytes);
  const bool mine = down < args.threads_y && channel < g.in_channels;

  // Weights do not depend on the kernel before this one.
  float w[in_registers ? kernel * kernel : 1][pack];
  if constexpr (in_registers) {
#pragma unroll
    for (int tap = 0; tap < kernel * kernel; ++tap) {
      const auto values =
          *reinterpret_cast<const Pack<float, pack>*>(args.weight + tap * g.in_channels + (mine ? channel : 0));
#pragma unroll
      for (int j = 0; j < pack; ++j) w[tap][j] = values.values[j];
    }
  } else {
    for (int i = thread; i < kernel * kernel * args.lanes; i += static_cast<int>(blockDim.x)) {
      const int tap = i / args.lanes, first = (i - tap * args.lanes) * pack;
      if (first >= channels) continue;
      ptx::copy_async<pack * 4>(ptx::shared_address(weights + i * pack),
                                args.weight + tap * g.in_channels + place.channel + first, true);
    }
  }
  wait_for_predecessor();
  {
    const int top = place.row * stride - g.padding_height, left = place.column * stride - g.padding_width;
    const std::uint32_t tile = ptx::shared_address(memory);
    if (args.copy_bytes == 16) {
      load_tile<T, 16>(args, place, top, left, channels, tile);
    } else if (args.copy_bytes == 8) {
      load_tile<T, 8>(args, place, top, left, channels, tile);
    } else {
      load_tile<T, 4>(args, place, top, left, channels, tile);
    }
  }
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
  __syncthreads();
  const int row = place.row + down * rows, column = place.column + across * columns;
  if (!mine || row >= g.out_height || column >= g.out_width) return;

  float sum[rows][columns][pack] = {};
  const unsigned char* source =
      memory + (down * rows * stride * args.tile_width + across * columns * stride) * args.pixel_bytes +
      lane * pack * static_cast<int>(sizeof(T));
  add_windows<T, kernel, stride, in_registers>(
      source, args.tile_width * args.pixel_bytes, args.pixel_bytes,
      [&](int kh, int kw, float(&tap)[pack]) {
        if constexpr (in_registers) {
#pragma unroll
          for (int j = 0; j < pack; ++j) tap[j] = w[kh * kernel + kw][j];
        } else {
          to_floats<float, pack>(
              reinterpret_cast<const unsigned char*>(weights + ((kh * kernel + kw) * args.lanes + lane) * pack), tap);
        }
      },
      sum);

  float bias[pack];
  to_floats<float, pack>(reinterpret_cast<const unsigned char*>(args.bias + channel), bias);
  const std::int64_t first =
      ((static_cast<std::int64_t>(place.image) * g.out_height + row) * g.out_width + column) * g.in_channels + channel;
  store_windows<T>(
      args.finish, bias, sum, static_cast<T*>(args.output),
      [&](int r, int c) { return first + (r * static_cast<std::int64_t>(g.out_width) + c) * g.in_channels; },
      [&](int r, int c) { return row + r < g.out_height && column + c < g.out_width; });
#endif
}

template <class T, int kernel, int stride, int pack, int rows>
Instance tiled() {
  // As many as leave a thread's 128 registers for its row of inputs: f32 is loaded in place of converted.
  constexpr bool wide = sizeof(T) == 4 && pack == 4;
  constexpr int columns = kernel > 3 && stride == 1 ? (wide && kernel > 5 ? 4 : 7) : wide && kernel > 3 ? 2 : 4;
  return {kernel,  stride, pack,
          columns, rows,   reinterpret_cast<const void*>(&tiled_kernel<T, kernel, stride, pack, columns, rows>)};
}
template <class T, int pack>
Instance general() {
  return {.pack = pack, .function = reinterpret_cast<const void*>(&general_kernel<T, pack>)};
}

template <class T>
std::vector<Instance> instances() {
  return {tiled<T, 3, 1, 4, 2>(), tiled<T, 3, 1, 4, 1>(), tiled<T, 3, 2, 4, 2>(), tiled<T, 3, 2, 4, 1>(),
          tiled<T, 5, 1, 4, 2>(), tiled<T, 5, 1, 4, 1>(), tiled<T, 5, 2, 4, 2>(), tiled<T, 5, 2, 4, 1>(),
          tiled<T, 7, 1, 4, 1>(), tiled<T, 7, 2, 4, 1>(), tiled<T, 3, 1, 2, 2>(), tiled<T, 3, 1, 2, 1>(),
          tiled<T, 3, 2, 2, 2>(), tiled<T, 3, 2, 2, 1>(), tiled<T, 5, 1, 2, 1>(), tiled<T, 5, 2, 2, 1>(),
          general<T, 4>(),        general<T, 1>()};
}

}  // namespace lamina::cuda::depthwise
