#pragma once

// A 1x1 convolution and the depthwise one behind it, between channels-last tensors of 16 bits. What lies between them,
// the widest map of a mobile network's block, is neither written nor read, and a launch is saved.
//
// A block owns a tile of outputs of one image, down x across tiles of a thread's rows x columns, and a slice of the
// channels. It brings the input pixels that the tile's windows see, all channels of them, into shared memory,
// multiplies them with the slice's filters (expand.cuh), rounds what comes to the storage type, as the map would be,
// puts it into shared memory, zeros around it where the padding is, and then does as the depthwise kernel. Shared
// memory: the slice's parameters; most_pixels * pixel_bytes; halo_height * halo_width * between_bytes. From pixel to
// pixel is an odd number of units of 16 bytes, so that 8 neighbours are in different banks. Preconditions: Arguments
// filled in by pair.cpp; compute capability 8.0.
//
// The order of sums is K from first to last, then tap by tap: no bit depends on tiles or the batch.

#include "lamina/cuda/conv2d/pair/expand.cuh"
#include "lamina/cuda/conv2d/windows.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::pair {

/// Where a block's work lies.
struct Place {
  int slice, row, column;  // its first output
  std::int64_t image;

  __device__ __forceinline__ Place(const Arguments& args, int rows, int columns) {
    const unsigned at = blockIdx.x;  // slices fastest: blocks that run together share pixels
    const unsigned tile = args.by_slices.quotient(at), line = args.by_tiles_x.quotient(tile);
    const unsigned above = args.by_tiles_y.quotient(line);
    slice = static_cast<int>(at) - static_cast<int>(tile) * args.slices;
    column = (static_cast<int>(tile) - static_cast<int>(line) * args.tiles_x) * args.across * columns;
    row = (static_cast<int>(line) - static_cast<int>(above) * args.tiles_y) * args.down * rows;
    image = above;
  }
};

/// Starts the copies of the rectangle's pixels, one after the other; a warp takes a row at a time.
template <int bytes>
__device__ __forceinline__ void load_pixels(const Arguments& args, const Rectangle& from, std::int64_t image,
                                            std::uint32_t to) {
  const int pieces = args.steps * 2 * unit_bytes / bytes, real = args.channels * 2 / bytes;  // of a pixel
  const auto pitch = static_cast<std::int64_t>(args.channels) * 2;
  const auto* source = static_cast<const unsigned char*>(args.input) +
                       ((image * args.height + from.top) * args.width + from.left) * pitch;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int y = static_cast<int>(threadIdx.x) / 32; y < from.height; y += threads / 32) {
    const unsigned char* row = source + y * args.width * pitch;
    const std::uint32_t line = to + static_cast<std::uint32_t>(y * from.width * args.pixel_bytes);
    for (int i = lane; i < from.width * pieces; i += 32) {
      const int x = static_cast<int>(args.by_pieces.quotient(static_cast<std::uint32_t>(i))), piece = i - x * pieces;
      const bool wanted = piece < real;
      ptx::copy_async<bytes>(line + static_cast<std::uint32_t>(x * args.pixel_bytes + piece * bytes),
                             row + (wanted ? x * pitch + piece * bytes : 0), wanted);
    }
  }
}

/// Zeros where the map between the two has no pixels.
__device__ __forceinline__ void pad(const Arguments& args, const Rectangle& inside, int top, int left,
                                    unsigned char* between) {
  if (inside.pixels() == args.halo_height * args.halo_width) return;
  const int units = args.between_bytes / unit_bytes, all = args.halo_height * args.halo_width * units;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += threads) {
    const auto pixel = args.by_units.quotient(static_cast<std::uint32_t>(i));
    const int y = static_cast<int>(args.by_halo_width.quotient(pixel));
    const int row = top + y, column = left + static_cast<int>(pixel) - y * args.halo_width;
    if (row >= inside.top && row < inside.top + inside.height && column >= inside.left &&
        column < inside.left + inside.width) {
      continue;
    }
    *reinterpret_cast<uint4*>(between + i * unit_bytes) = {};
  }
}

template <class T, int kernel, int stride, int pack, int columns, int rows>
__device__ __forceinline__ void convolve(const Arguments& args, const Place& place, const unsigned char* between,
                                         const float* taps, const float* biases) {
  constexpr bool in_registers = kernel * kernel * pack <= 36;
  const int lanes = args.slice / pack, items = lanes * args.across * args.down;
  for (int item = static_cast<int>(threadIdx.x); item < items; item += threads) {
    const auto spot = args.by_lanes.quotient(static_cast<std::uint32_t>(item));
    const int lane = item - static_cast<int>(spot) * lanes, down = static_cast<int>(args.by_across.quotient(spot));
    const int across = static_cast<int>(spot) - down * args.across;
    const int row = place.row + down * rows, column = place.column + across * columns;
    const int channel = place.slice * args.slice + lane * pack;
    if (row >= args.out_height || column >= args.out_width || channel >= args.filters) continue;

    float w[in_registers ? kernel * kernel : 1][pack], bias[pack];
    if constexpr (in_registers) {
#pragma unroll
      for (int tap = 0; tap < kernel * kernel; ++tap) {
        to_floats<float, pack>(reinterpret_cast<const unsigned char*>(taps + tap * args.slice + lane * pack), w[tap]);
      }
    }
    float sum[rows][columns][pack] = {};
    add_windows<T, kernel, stride, in_registers>(
        between + (down * rows * stride * args.halo_width + across * columns * stride) * args.between_bytes +
            lane * pack * static_cast<int>(sizeof(T)),
        args.halo_width * args.between_bytes, args.between_bytes,
        [&](int kh, int kw, float(&tap)[pack]) {
          if constexpr (in_registers) {
#pragma unroll
            for (int j = 0; j < pack; ++j) tap[j] = w[kh * kernel + kw][j];
          } else {
            to_floats<float, pack>(
                reinterpret_cast<const unsigned char*>(taps + (kh * kernel + kw) * args.slice + lane * pack), tap);
          }
        },
        sum);
    to_floats<float, pack>(reinterpret_cast<const unsigned char*>(biases + lane * pack), bias);
    const std::int64_t first =
        ((place.image * args.out_height + row) * args.out_width + column) * args.filters + channel;
    store_windows<T>(
        args.finish, bias, sum, static_cast<T*>(args.output),
        [&](int r, int c) { return first + (r * static_cast<std::int64_t>(args.out_width) + c) * args.filters; },
        [&](int r, int c) { return row + r < args.out_height && column + c < args.out_width; });
  }
}

template <class T, int kernel, int stride, int pack, int columns, int rows>
__global__ void __launch_bounds__(threads, 2) pair_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char memory[];
  let_successor_start();
  const Place place(args, rows, columns);
  const ParametersOf offset(args.steps, args.slice, kernel);
  const int pixel_offset = offset.bytes, between_offset = pixel_offset + args.most_pixels * args.pixel_bytes;
  const int top = place.row * stride - args.padding_height, left = place.column * stride - args.padding_width;
  Rectangle from = {max(top, 0), max(left, 0), 0, 0};
  from.height = max(min(top + args.halo_height, args.height) - from.top, 0);
  from.width = max(min(left + args.halo_width, args.width) - from.left, 0);
  unsigned char* const between = memory + between_offset;

  // Parameters and padding do not depend on the kernel before this one.
  const std::uint32_t shared = ptx::shared_address(memory);
  const auto* parameters = args.parameters + static_cast<std::int64_t>(place.slice) * offset.bytes;
  for (int i = static_cast<int>(threadIdx.x) * 16; i < offset.bytes; i += threads * 16) {
    ptx::copy_async<16>(shared + static_cast<std::uint32_t>(i), parameters + i);
  }
  pad(args, from, top, left, between);
  wait_for_predecessor();
  const std::uint32_t pixels = shared + static_cast<std::uint32_t>(pixel_offset);
  if (args.copy_bytes == 16) {
    load_pixels<16>(args, from, place.image, pixels);
  } else if (args.copy_bytes == 8) {
    load_pixels<8>(args, from, place.image, pixels);
  } else {
    load_pixels<4>(args, from, place.image, pixels);
  }
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
  __syncthreads();
  unsigned char* const inside = between + ((from.top - top) * args.halo_width + from.left - left) * args.between_bytes;
  if (args.wide) {
    expand<T, 2>(args, from, pixels, memory, offset.bias, inside);
  } else {
    expand<T, 1>(args, from, pixels, memory, offset.bias, inside);
  }
  __syncthreads();
  convolve<T, kernel, stride, pack, columns, rows>(args, place, between,
                                                   reinterpret_cast<const float*>(memory + offset.taps),
                                                   reinterpret_cast<const float*>(memory + offset.last));
#endif
}

template <class T, int kernel, int stride, int pack, int rows>
Instance instance() {
  constexpr int columns = kernel > 3 && stride == 1 ? 7 : 4;
  return {kernel,  stride, pack,
          columns, rows,   reinterpret_cast<const void*>(&pair_kernel<T, kernel, stride, pack, columns, rows>)};
}

template <class T>
std::vector<Instance> instances() {
  return {instance<T, 3, 1, 4, 2>(), instance<T, 3, 1, 4, 1>(), instance<T, 3, 2, 4, 2>(), instance<T, 3, 2, 4, 1>(),
          instance<T, 5, 1, 4, 2>(), instance<T, 5, 1, 4, 1>(), instance<T, 5, 2, 4, 2>(), instance<T, 5, 2, 4, 1>(),
          instance<T, 3, 1, 2, 2>(), instance<T, 3, 1, 2, 1>(), instance<T, 3, 2, 2, 2>(), instance<T, 3, 2, 2, 1>()};
}

}  // namespace lamina::cuda::pair
