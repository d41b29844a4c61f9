#pragma once

// Convolution between channels-last tensors on mma.sync, with any channels, groups and geometry: what the kernel on
// wgmma (channels_last) does not take.
//
//   pixels [M, K]  x  weight [K, N = filters of a bundle]      K = channels of the bundle * taps
//
// A block owns y.tile x x.tile output pixels of one image and `block_bundles` bundles of filters. The input pixels that
// these see come into shared memory once, with their halo, a chunk of channels at a time; a tap is then an offset, so
// the fragments of all taps come from there by ldmatrix: a row of a matrix is a unit of 16 bytes of one pixel's
// channels, and any two units are a step of K, whichever taps they are of. Filters with few channels are bundled until
// a fragment of 8 filters and a unit of channels are full. Weights lie in memory as the fragments' registers.
// Warps divide the block's pixels and, where bundles share channels, the bundles; where one chunk holds all channels
// of a bundle, they go on to the block's other bundles. Windows of 3 x 3 have a loop of their own: window.cuh.
// Shared memory: a table of the units' offsets; biases; 1 to 3 stages of the pixels, pixel_bytes each, and the weights
// of a chunk; results on their way out. pixel_bytes is an odd number of units, so that 8 pixels side by side are in
// different banks.
// Preconditions: compute capability 8.0; Arguments filled in by resident.cpp.

#include "lamina/cuda/conv2d/mma/resident/window.cuh"
#include "lamina/cuda/ptx/shared.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::mma::resident {

template <class Op>
__device__ __forceinline__ void load_chunk(const Arguments& args, const Place& place, int channel, int chunk,
                                           std::uint32_t stage, bool pixels, bool weights) {
  constexpr int element_bytes = static_cast<int>(sizeof(typename Op::Element));
  if (weights) {
    load_weights<Op::split>(args, place.bundle, chunk, stage + static_cast<std::uint32_t>(args.weight_offset));
  }
  if (!pixels) return;
  if (args.copy_bytes == 16) {
    load_pixels<element_bytes, 16>(args, place, channel, chunk, stage);
  } else if (args.copy_bytes == 8) {
    load_pixels<element_bytes, 8>(args, place, channel, chunk, stage);
  } else if (args.copy_bytes == 4) {
    load_pixels<element_bytes, 4>(args, place, channel, chunk, stage);
  } else if constexpr (element_bytes <= 2) {
    load_pixels<element_bytes, 2>(args, place, channel, chunk, stage);
  }
}

/// Any window.
template <class Op, int m, int n, int warps_m>
__device__ __forceinline__ void convolve(const Arguments& args, const Place& place, int channel,
                                         unsigned char* memory) {
  constexpr int warps_n = threads / 32 / warps_m;
  using Weights = resident::Weights<Op>;
  const ConvGeometry& g = args.geometry;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const std::uint32_t table = ptx::shared_address(memory), ring = table + static_cast<std::uint32_t>(args.ring_offset);

  // What this lane reads of each fragment: one pixel, one of the two units.
  const int pixels = args.y.tile * args.x.tile, warp_m = warp % warps_m, warp_n = warp / warps_m;
  const auto row_of = [&](int pixel) {
    return static_cast<int>(args.by_tile_x.quotient(static_cast<std::uint32_t>(pixel)));
  };
  std::uint32_t source[m];
#pragma unroll
  for (int i = 0; i < m; ++i) {
    const int pixel = min(warp_m * 16 * m + i * 16 + lane % 16, pixels - 1);
    const int y = row_of(pixel), x = pixel - y * args.x.tile;
    source[i] = static_cast<std::uint32_t>((y * args.y.stride * args.x.halo + x * args.x.stride) * args.pixel_bytes);
  }
  // What it stores, of the image's pixels; negative: nothing.
  int to[2 * m];
#pragma unroll
  for (int i = 0; i < 2 * m; ++i) {
    const int pixel = warp_m * 16 * m + i * 8 + lane / 4;
    const int y = row_of(pixel), row = place.row + y, column = place.column + pixel - y * args.x.tile;
    to[i] = pixel < pixels && row < g.out_height && column < g.out_width ? row * g.out_width + column : -1;
  }

  const int weight_bytes = args.steps * step_bytes_of(Op::split, n);
  const int bundles = min(args.block_bundles, args.bundling.count - place.bundle);
  for (int local = warp_n, first = true; local < max(bundles, warps_n); local += warps_n, first = false) {
    Sums<Op, m, n> sums;
    int stage = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < args.chunks; ++chunk) {
      if (first) {
        if (args.chunks == 1) {
          ptx::copy_async_wait<0>();
        } else {
          ptx::copy_async_wait<max_stages - 1>();
        }
        __syncthreads();
      }
      const std::uint32_t base = ring + static_cast<std::uint32_t>(stage * args.stage_bytes);
      if (local < bundles) {
        const std::uint32_t tile = base + static_cast<std::uint32_t>(args.shared ? 0 : local * args.units * unit_bytes);
        std::uint32_t weights = base + static_cast<std::uint32_t>(args.weight_offset + local * weight_bytes) +
                                static_cast<std::uint32_t>(lane) * static_cast<std::uint32_t>(sizeof(Weights));
        std::uint32_t offsets = table + static_cast<std::uint32_t>(lane / 16 * 4);
#pragma unroll 2
        for (int step = 0; step < args.steps; ++step) {
          const std::uint32_t from = tile + ptx::load_shared<std::uint32_t>(offsets);
          std::uint32_t a[m][4];
#pragma unroll
          for (int i = 0; i < m; ++i) ptx::load_matrices(a[i], from + source[i]);
          Weights b[n];
#pragma unroll
          for (int j = 0; j < n; ++j) {
            b[j] = ptx::load_shared<Weights>(weights + static_cast<std::uint32_t>(j * 32 * sizeof(Weights)));
          }
          sums.multiply(a, b, step);
          offsets += 8;
          weights += static_cast<std::uint32_t>(n * 32 * sizeof(Weights));
        }
      }
      if (args.chunks > 1) {
        // A stage is filled again once everybody has read it.
        __syncthreads();
        if (chunk + args.stages < args.chunks)
          load_chunk<Op>(args, place, channel, chunk + args.stages, base, true, true);
        ptx::copy_async_commit();
        if (++stage == args.stages) stage = 0;
      }
    }
    sums.end();
    if (local >= bundles) continue;
    if constexpr (of_codes<Op>) {
      const auto* const biases = reinterpret_cast<const int*>(memory + args.biases_offset) + local * 16 * n;
      store<m, n>(args, place, place.bundle + local, to, sums.sum, biases);
    } else {
      store<Op, m, n>(args, place, place.bundle + local, to, sums.sum);
    }
  }
}

/// Where the units of K lie, seen from an output's first pixel.
__device__ __forceinline__ void fill_table(const Arguments& args, int* table) {
  for (int i = static_cast<int>(threadIdx.x); i < args.steps * 2; i += threads) {
    const auto tap = args.by_units.quotient(static_cast<std::uint32_t>(i));
    const int unit = i - static_cast<int>(tap) * args.units,
              down = static_cast<int>(args.by_kernel_width.quotient(tap));
    const int right = static_cast<int>(tap) - down * args.geometry.kernel_width;
    // The unit that fills the last step meets weights of zero.
    const bool real = down < args.geometry.kernel_height;
    table[i] =
        real ? (down * args.y.dilation * args.x.halo + right * args.x.dilation) * args.pixel_bytes + unit * unit_bytes
             : 0;
  }
}

/// Registers for two to four blocks on a multiprocessor.
template <class Op, int m, int n, int warps_m, int stride>
__global__ void __launch_bounds__(threads, Op::split   ? (m* n > 8 ? 2 : 3)
                                           : m* n > 16 ? 2
                                           : m * n > 8 ? 3
                                                       : 4) mma_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  let_successor_start();
  extern __shared__ __align__(16) unsigned char memory[];
  const Place place(args);
  const int channel = BundlePlace(args.geometry, args.bundling, place.bundle).channel;
  [[maybe_unused]] const std::uint32_t start = ptx::shared_address(memory);
  const std::uint32_t ring = start + static_cast<std::uint32_t>(args.ring_offset);
  // Weights and biases do not depend on the kernel before this one.
  if constexpr (stride > 0 || of_codes<Op>) {
    load_biases<of_codes<Op> ? 2 : 1>(args, place.bundle, start + static_cast<std::uint32_t>(args.biases_offset));
  }
  for (int stage = 0; stage < args.stages; ++stage) {
    load_chunk<Op>(args, place, channel, stage, ring + static_cast<std::uint32_t>(stage * args.stage_bytes), false,
                   true);
  }
  if constexpr (stride == 0) fill_table(args, reinterpret_cast<int*>(memory));
  wait_for_predecessor();
  for (int stage = 0; stage < args.stages; ++stage) {
    load_chunk<Op>(args, place, channel, stage, ring + static_cast<std::uint32_t>(stage * args.stage_bytes), true,
                   false);
    ptx::copy_async_commit();
  }
  if constexpr (stride == 0) {
#pragma unroll 1
    for (int stage = args.stages; stage < max_stages; ++stage) ptx::copy_async_commit();  // as many groups as stages
    convolve<Op, m, n, warps_m>(args, place, channel, memory);
  } else {
    convolve_window<Op, m, n, stride>(args, place, memory);
  }
#endif
}

template <class Op, int m, int n, int warps_m = 4, int stride = 0>
Tile make_tile() {
  constexpr int element_bytes = static_cast<int>(sizeof(typename Op::Element));
  constexpr int run = stride > 0 ? run_of(element_bytes, n) : 1;
  return {.m = m,
          .n = n,
          .warps_m = warps_m,
          .stride = stride,
          .run = run,
          .results_bytes = stride > 0 ? Results<m, n, run>::bytes : 0,
          .kernel = reinterpret_cast<const void*>(&mma_kernel<Op, m, n, warps_m, stride>)};
}

template <class Op>
std::vector<Tile> make_tiles() {
  return {make_tile<Op, 1, 1>(), make_tile<Op, 2, 1>(), make_tile<Op, 1, 2>(), make_tile<Op, 2, 2>(),
          make_tile<Op, 1, 3>(), make_tile<Op, 2, 3>(), make_tile<Op, 1, 4>(), make_tile<Op, 2, 4>(),
          make_tile<Op, 1, 6>(), make_tile<Op, 1, 8>(), make_tile<Op, 2, 8>(), make_tile<Op, 4, 8, 2>()};
}
/// Those of windows of 3 x 3, of stride 1 and 2.
template <class Op>
std::vector<Tile> with_windows(std::vector<Tile> tiles) {
  for (const Tile& tile : {make_tile<Op, 1, 1, 4, 1>(), make_tile<Op, 2, 1, 4, 1>(), make_tile<Op, 4, 1, 4, 1>(),
                           make_tile<Op, 1, 1, 4, 2>(), make_tile<Op, 2, 1, 4, 2>()}) {
    tiles.push_back(tile);
  }
  return tiles;
}
/// Sums of codes are no windows, and their bundles at least one of two fragments, but where blocks are few.
template <class T>
std::vector<Tile> make_tiles_of_codes() {
  using Op = OfCodes<T>;
  return {make_tile<Op, 1, 1>(), make_tile<Op, 1, 2>(), make_tile<Op, 2, 2>(),
          make_tile<Op, 1, 3>(), make_tile<Op, 2, 3>(), make_tile<Op, 1, 4>(),
          make_tile<Op, 2, 4>(), make_tile<Op, 1, 8>(), make_tile<Op, 4, 8, 2>()};
}
/// fp32 has sums and chains.
template <class Op>
std::vector<Tile> make_split_tiles() {
  return {make_tile<Op, 1, 1>(), make_tile<Op, 2, 1>(), make_tile<Op, 1, 2>(), make_tile<Op, 2, 2>(),
          make_tile<Op, 1, 3>(), make_tile<Op, 1, 4>(), make_tile<Op, 2, 4>(), make_tile<Op, 1, 8>()};
}

}  // namespace lamina::cuda::mma::resident
