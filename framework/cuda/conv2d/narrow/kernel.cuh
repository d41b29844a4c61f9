#pragma once

// A 1x1 convolution to few filters: pixels [M, K] x filters [K, F] between channels-last tensors of 16 bits, or of
// codes, as mobile networks' blocks end. Pixels go from memory straight into the fragments of mma.sync, 16 bytes a
// lane: which k a register of a fragment stands for is free, as long as both operands agree, and so lane 4 g + t has
// bytes 16 t to 16 t + 15 of a chunk of 64, of row g. On their way they may be multiplied by factors of their image's
// channels, as squeeze and excitation ends, and are rounded then as that product would be. A warp's codes that are
// multiplied are of one image: its rows share the factors, which take four times the registers of the pixels.
//
// A warp owns 16 m pixels, 8 n filters and, where there are too few of these, a part of K: `splits` warps of a block
// share a tile, and add up through shared memory. A block owns a slice of the filters, whose weights lie in shared
// memory from before its predecessor ends, and walks over tiles of pixels. Shared memory: slice_bytes, and behind them
// the warps' sums where splits > 1. Preconditions: Arguments filled in by narrow.cpp; compute capability 8.0.

#include "lamina/cuda/conv2d/narrow/store.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/mma_codes.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::narrow {

/// Two neighbouring elements times two, each product rounded.
template <class T>
__device__ __forceinline__ void multiply(std::uint32_t& pair, std::uint32_t by) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 product =
        __hmul2_rn(*reinterpret_cast<const __half2*>(&pair), *reinterpret_cast<const __half2*>(&by));
    pair = *reinterpret_cast<const std::uint32_t*>(&product);
  } else {
    const auto low = [](std::uint32_t v) { return __uint_as_float(v << 16); };
    const auto high = [](std::uint32_t v) { return __uint_as_float(v & 0xFFFF0000u); };
    const __nv_bfloat162 product = __floats2bfloat162_rn(low(pair) * low(by), high(pair) * high(by));
    pair = *reinterpret_cast<const std::uint32_t*>(&product);
  }
}

/// A chunk of a lane's 2 m rows.
template <class T, int m, bool scaled>
struct Operands {
  uint4 pixels[2 * m], factors[scaled ? factor_words(m, scaled, of_codes<T>) / 4 : 1];

  __device__ __forceinline__ void multiply_pixels(const Multiplier& product) {
    if constexpr (scaled && of_codes<T>) {
      const auto multiply = [&](std::uint32_t& four, const uint4& by) {
        four = multiplied(product, four, *reinterpret_cast<const float4*>(&by));
      };
#pragma unroll
      for (int i = 0; i < 2 * m; ++i) {
        multiply(pixels[i].x, factors[0]), multiply(pixels[i].y, factors[1]);
        multiply(pixels[i].z, factors[2]), multiply(pixels[i].w, factors[3]);
      }
    } else if constexpr (scaled) {
#pragma unroll
      for (int i = 0; i < 2 * m; ++i) {
        multiply<T>(pixels[i].x, factors[i].x), multiply<T>(pixels[i].y, factors[i].y);
        multiply<T>(pixels[i].z, factors[i].z), multiply<T>(pixels[i].w, factors[i].w);
      }
    }
  }
};

template <class T, int m, bool scaled>
__device__ __forceinline__ Place place_of(const Arguments& args, int tile) {
  if constexpr (!scaled || !of_codes<T>) return {tile * 16 * m, args.pixels};
  const int image = static_cast<int>(args.by_image.quotient(static_cast<std::uint32_t>(tile)));
  const int before = image * ((args.image_pixels + 16 * m - 1) / (16 * m)), begin = image * args.image_pixels;
  return {begin + (tile - before) * 16 * m, min(begin + args.image_pixels, args.pixels), image};
}

/// Where a lane's 2 m rows lie, eight pixels apart.
template <class T, int m, bool scaled>
struct Rows {
  static constexpr int bytes = sizeof(T);
  static constexpr bool one_image = scaled && of_codes<T>;
  const unsigned char *pixels[2 * m], *factors[scaled && !one_image ? 2 * m : 1];

  __device__ __forceinline__ Rows(const Arguments& args, const Place& place) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (one_image) {
      factors[0] = static_cast<const unsigned char*>(args.factors) +
                   (std::int64_t{min(place.image, args.images - 1)} * args.channels + lane % 4 * 16) * 4;
    }
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) {
      const int pixel = min(place.first + i * 8 + lane / 4, args.pixels - 1);
      const auto at = [&](const void* from, std::int64_t row) {
        return static_cast<const unsigned char*>(from) + row * args.channels * bytes + lane % 4 * 16;
      };
      pixels[i] = at(args.input, pixel);
      if constexpr (scaled && !one_image)
        factors[i] = at(args.factors, args.by_image.quotient(static_cast<std::uint32_t>(pixel)));
    }
  }

  /// Zeros from `last` on, and behind the channels.
  __device__ __forceinline__ void load(const Arguments& args, int at, int last, Operands<T, m, scaled>& to) const {
    const int left = args.channels * bytes - at * chunk_bytes - static_cast<int>(threadIdx.x) % 4 * 16;
    const bool inside = at < last && left > 0;
    const bool halves = of_codes<T> && args.channels % 16 != 0;  // of 16 bytes, which the next pixel may begin amidst
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) {
      to.pixels[i] = {};
      const unsigned char* const from = pixels[i] + at * chunk_bytes;
      if (inside && halves) {
        const auto first = *reinterpret_cast<const uint2*>(from);
        to.pixels[i].x = first.x, to.pixels[i].y = first.y;
        if (left < 16) continue;
        const auto second = *reinterpret_cast<const uint2*>(from + 8);
        to.pixels[i].z = second.x, to.pixels[i].w = second.y;
      } else if (inside) {
        to.pixels[i] = *reinterpret_cast<const uint4*>(from);
      }
      if constexpr (scaled && !one_image) {
        to.factors[i] = {};
        if (inside) to.factors[i] = *reinterpret_cast<const uint4*>(factors[i] + at * chunk_bytes);
      }
    }
    if constexpr (one_image) {
#pragma unroll
      for (int four = 0; four < 4; ++four) {
        to.factors[four] = {};
        if (!inside || left <= four * 4) continue;
        to.factors[four] = *reinterpret_cast<const uint4*>(factors[0] + at * chunk_bytes * 4 + four * 16);
      }
    }
  }
};

template <class T, int m, int n, bool scaled>
__global__ void __launch_bounds__(threads, resident_of(m, n, scaled, of_codes<T>))
    narrow_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  constexpr int stages = stages_of(m);
  extern __shared__ __align__(16) unsigned char memory[];
  let_successor_start(args.neighbours);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int split = warp % args.splits, group = warp / args.splits, groups = warps / args.splits;
  const int begins = static_cast<int>(args.by_slices.quotient(blockIdx.x));
  const int slice = static_cast<int>(blockIdx.x) - begins * args.slices;
  const int step = static_cast<int>(args.by_slices.quotient(gridDim.x));
  const int bytes = slice_bytes(args.chunks, n, of_codes<T>);
  {
    const unsigned char* from = args.weights + static_cast<std::int64_t>(slice) * bytes;
    for (int i = thread * 16; i < bytes; i += threads * 16) {
      ptx::copy_async<16>(ptx::shared_address(memory) + static_cast<std::uint32_t>(i), from + i);
    }
    ptx::copy_async_commit();
  }
  const int from = args.chunks * split / args.splits, last = args.chunks * (split + 1) / args.splits;
  const auto* bias = reinterpret_cast<const Sum<T>*>(memory + bias_offset(args.chunks, n));
  wait_for_predecessor(args.neighbours);
  for (int tile = begins; tile < args.tiles; tile += step) {
    const Place place = place_of<T, m, scaled>(args, tile * groups + group);
    const Rows<T, m, scaled> rows(args, place);
    Operands<T, m, scaled> operands[stages];
#pragma unroll
    for (int s = 0; s < stages - 1; ++s) rows.load(args, from + s, last, operands[s]);
    if (tile == begins) {
      ptx::copy_async_wait<0>();
      __syncthreads();
    }
    Sum<T> sum[m][n][4] = {};
    for (int at = from; at < last; at += stages) {
#pragma unroll
      for (int s = 0; s < stages; ++s) {
        rows.load(args, at + s + stages - 1, last, operands[(s + stages - 1) % stages]);
        if (at + s >= last) continue;
        Operands<T, m, scaled>& now = operands[s];
        now.multiply_pixels(args.product);
        const unsigned char* weights = memory + (at + s) * (n * fragment_bytes) + lane * 16;
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const uint4 w = *reinterpret_cast<const uint4*>(weights + j * fragment_bytes);
#pragma unroll
          for (int i = 0; i < m; ++i) {
            const uint4 &above = now.pixels[2 * i], &below = now.pixels[2 * i + 1];
            ptx::mma<T>(sum[i][j], {above.x, below.x, above.y, below.y}, {w.x, w.y}, sum[i][j]);
            ptx::mma<T>(sum[i][j], {above.z, below.z, above.w, below.w}, {w.z, w.w}, sum[i][j]);
          }
        }
      }
    }
    if (args.splits == 1) {
      store_tile<T, m, n>(args, place, slice * 8 * n, bias, sum);
    } else {
      store_together<T, m, n>(args, place, slice * 8 * n, bias, reinterpret_cast<Pack<Sum<T>, 4>*>(memory + bytes),
                              sum);
    }
  }
  end_beside(args.neighbours);
#endif
}

template <class T, int m, int n, bool scaled>
Tile tile_of() {
  const void* const kernel = reinterpret_cast<const void*>(&narrow_kernel<T, m, n, scaled>);
  return {m, n, scaled, resident_of(m, n, scaled, of_codes<T>), kernel};
}
template <class T, int m, int n>
void add_tiles(std::vector<Tile>& tiles) {
  tiles.insert(tiles.end(), {tile_of<T, m, n, false>(), tile_of<T, m, n, true>()});
}

/// 16, 32 and 64 filters, of which a lane stores 8 or 16 bytes at a time: others were slower, even where they fit.
template <class T>
std::vector<Tile> tiles() {
  std::vector<Tile> all;
  add_tiles<T, 1, 2>(all), add_tiles<T, 1, 4>(all), add_tiles<T, 1, 8>(all);
  add_tiles<T, 2, 2>(all), add_tiles<T, 2, 4>(all), add_tiles<T, 2, 8>(all);
  return all;
}

}  // namespace lamina::cuda::narrow
