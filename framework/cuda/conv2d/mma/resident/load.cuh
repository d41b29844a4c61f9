#pragma once

// How a chunk's pixels and weights come into shared memory: by cp.async, zeros for what is outside the image or past
// the last channel. Codes have what stands for zero outside, and past the channels, where they meet zeros, anything.

#include "lamina/cuda/conv2d/mma/resident/arguments.h"
#include "lamina/cuda/ptx/copy.cuh"

namespace lamina::cuda::mma::resident {

/// Where a block's work lies.
struct Place {
  int image, row, column;  // its first output
  int bundle;              // its first

  __device__ __forceinline__ explicit Place(const Arguments& args) {
    const unsigned at = blockIdx.x;  // bundles fastest: blocks that run together share pixels
    const unsigned tile = args.by_bundle_blocks.quotient(at), line = args.by_tiles_x.quotient(tile);
    const unsigned above = args.by_tiles_y.quotient(line);
    bundle = (static_cast<int>(at) - static_cast<int>(tile) * args.bundle_blocks) * args.block_bundles;
    column = (static_cast<int>(tile) - static_cast<int>(line) * args.x.tiles) * args.x.tile;
    row = (static_cast<int>(line) - static_cast<int>(above) * args.y.tiles) * args.y.tile;
    image = static_cast<int>(above);
  }
};

template <int bytes>
__device__ __forceinline__ void copy(std::uint32_t to, const unsigned char* from, bool wanted) {
  if constexpr (bytes == 2) {
    ptx::store_shared(to, wanted ? *reinterpret_cast<const std::uint16_t*>(from) : std::uint16_t{0});
  } else {
    ptx::copy_async<bytes>(to, from, wanted);
  }
}

template <int bytes>
__device__ __forceinline__ void fill(std::uint32_t to, std::uint32_t word) {
  if constexpr (bytes == 2) return ptx::store_shared(to, static_cast<std::uint16_t>(word));
#pragma unroll
  for (std::uint32_t i = 0; i < bytes; i += 4) ptx::store_shared(to + i, __uint_as_float(word));
}

/// The pixels of a block, all channels of chunk `chunk`; a warp takes a row at a time.
template <int element_bytes, int bytes>
__device__ __forceinline__ void load_pixels(const Arguments& args, const Place& place, int first_channel, int chunk,
                                            std::uint32_t to) {
  const ConvGeometry& g = args.geometry;
  constexpr int unit_elements = unit_bytes / element_bytes;
  const int units = args.shared ? args.units : args.units * args.block_bundles;
  const int begin = chunk * args.units * unit_elements;  // within the bundle
  const int range = args.shared ? args.bundling.channels : args.bundling.channels * args.block_bundles;
  const int channel = first_channel + begin;
  const int channels = min(min(range - begin, g.in_channels - channel), units * unit_elements);
  const int pieces = units * unit_bytes / bytes;
  [[maybe_unused]] const int real = channels * element_bytes / bytes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int top = place.row * g.stride_height - g.padding_height;
  const int left = place.column * g.stride_width - g.padding_width;
  const auto pitch = static_cast<std::int64_t>(g.in_channels) * element_bytes;
  const auto* image = static_cast<const unsigned char*>(args.input) +
                      static_cast<std::int64_t>(place.image) * g.in_height * g.in_width * pitch +
                      static_cast<std::int64_t>(channel) * element_bytes;
  // Few rows: warps share them.
  const int teams = args.y.halo >= threads / 32 ? 1 : threads / 32;
  const int team = teams == 1 ? 0 : static_cast<int>(threadIdx.x) / 32;
  for (int y = teams == 1 ? static_cast<int>(threadIdx.x) / 32 : 0; y < args.y.halo;
       y += teams == 1 ? threads / 32 : 1) {
    const int row = top + y * args.y.step;
    const bool row_inside = row >= 0 && row < g.in_height;
    const unsigned char* source = image + (row_inside ? row : 0) * (g.in_width * pitch);
    const std::uint32_t line = to + static_cast<std::uint32_t>(y * args.x.row() * args.pixel_bytes);
    for (int i = team * 32 + lane; i < args.x.halo * pieces; i += 32 * teams) {
      const int x = static_cast<int>(args.by_pieces.quotient(static_cast<std::uint32_t>(i))), piece = i - x * pieces;
      const int column = left + x * args.x.step;
      const bool inside = row_inside && column >= 0 && column < g.in_width;
      const std::uint32_t at = line + static_cast<std::uint32_t>(args.x.place(x) * args.pixel_bytes + piece * bytes);
      if constexpr (element_bytes == 1) {
        // Bundles that follow each other have units of their own.
        const auto bundle = static_cast<int>(args.by_units.quotient(static_cast<unsigned>(piece * bytes / unit_bytes)));
        const int within = piece * bytes - bundle * args.units * unit_bytes,
                  from = bundle * args.bundling.channels + within;
        if (within >= args.bundling.channels - begin || from >= g.in_channels - channel) continue;
        inside ? copy<bytes>(at, source + column * pitch + from, true) : fill<bytes>(at, args.padding);
      } else {
        const bool wanted = inside && piece < real;
        copy<bytes>(at, source + (wanted ? column * pitch + piece * bytes : 0), wanted);
      }
    }
  }
}

/// The weights of a block's bundles for one chunk, one bundle after the other.
template <bool split>
__device__ __forceinline__ void load_weights(const Arguments& args, int first_bundle, int chunk, std::uint32_t to) {
  const int bytes = args.steps * step_bytes_of(split, args.fragments);
  const int bundles = min(args.block_bundles, args.bundling.count - first_bundle);
  for (int bundle = 0; bundle < bundles; ++bundle, to += static_cast<std::uint32_t>(bytes)) {
    const auto* from = static_cast<const unsigned char*>(args.weight) +
                       (static_cast<std::size_t>(first_bundle + bundle) * static_cast<unsigned>(args.chunks) +
                        static_cast<unsigned>(chunk)) *
                           static_cast<unsigned>(bytes);
    for (int i = static_cast<int>(threadIdx.x) * 16; i < bytes; i += threads * 16) {
      ptx::copy_async<16>(to + static_cast<std::uint32_t>(i), from + i);
    }
  }
}

/// The biases of a block's bundles; `words`: for each filter.
template <int words>
__device__ __forceinline__ void load_biases(const Arguments& args, int first_bundle, std::uint32_t to) {
  const int bundles = min(args.block_bundles, args.bundling.count - first_bundle), each = args.fragments * 8 * words;
  const auto* from = static_cast<const std::uint32_t*>(args.bias) + first_bundle * each;
  for (int i = static_cast<int>(threadIdx.x) * 4; i < bundles * each; i += threads * 4) {
    ptx::copy_async<16>(to + static_cast<std::uint32_t>(i * 4), from + i);
  }
}

}  // namespace lamina::cuda::mma::resident
