#pragma once

#include "lamina/cuda/conv2d/first_layer/modes.cuh"
#include "lamina/cuda/conv2d/first_layer/tile.cuh"
#include "lamina/cuda/ptx/copy.cuh"

/// The way out of a tile, 64 pixels x filters, to NHWC: the buffer holds the pixels as memory will, so that the copy
/// engine can take the whole tile away, or threads 16 bytes each.
namespace lamina::cuda::first_layer {

/// Four neighbouring filters as stored.
template <class Out>
struct Quad {
  uint2 bits;

  Quad() = default;
  __device__ __forceinline__ Quad(float a, float b, float c, float d)
      : bits(make_uint2(Pair<Out>::pack(a, b), Pair<Out>::pack(c, d))) {}
  __device__ __forceinline__ Quad or_else(const Quad& other, bool wanted) const {
    Quad result = *this;
    if (wanted) result.bits = make_uint2(other.bits.x, other.bits.y);
    return result;
  }
};
template <>
struct Quad<float> {
  float4 bits;

  Quad() = default;
  __device__ __forceinline__ Quad(float a, float b, float c, float d) : bits(make_float4(a, b, c, d)) {}
  __device__ __forceinline__ Quad or_else(const Quad& other, bool wanted) const {
    Quad result = *this;
    if (wanted) result.bits = make_float4(other.bits.x, other.bits.y, other.bits.z, other.bits.w);
    return result;
  }
};
template <class T>
__device__ __forceinline__ void exchange(Quad<T>& a, Quad<T>& b, bool wanted) {
  const Quad<T> first = a;
  a = a.or_else(b, wanted);
  b = b.or_else(first, wanted);
}

template <class Out, int filters>
struct Pixels {
  static constexpr int row_bytes = filters * static_cast<int>(sizeof(Out));  // of one pixel
  static constexpr int block_bytes = row_bytes / (filters / 16);             // of 16 filters: four lanes' worth
  static_assert(tile_pixels * row_bytes <= buffer_bytes(filters, sizeof(Out)));

  const Params& p;
  Out* buffer;  // [pixel][filters], shared; where p.contiguous without the overhang between rows
  int first_filter;
  int thread;  // within its warpgroup

  /// Computing side: `y` [filters / 2] is this thread's outputs in fragment order. The buffer is free.
  __device__ __forceinline__ void put(const PixelPlaces& places, const float (&y)[filters / 2]) const {
    const int i = 16 * (thread >> 5) + ((thread & 31) >> 2);
    put_pixel<0>(places.offset[i], y);
    put_pixel<2>(places.offset[i + 8], y);
    ptx::fence_async_proxy();
  }

  /// Where the buffer holds filter `f` of tile row i, which `put` has written: for values that replace others.
  __device__ __forceinline__ Out& at(const PixelPlaces& places, int i, int f) const {
    return buffer[places.offset[i] / static_cast<int>(sizeof(Out)) + f];
  }

  /// Storing side: the tile's first pixel and how many follow each other from there.
  struct Places {
    Out* output;
    int count;
  };

  __device__ __forceinline__ Places prepare(const TileMap& tile) const {
    Out* image = static_cast<Out*>(p.output) + tile.image * p.out_height * p.out_width * p.out_channels + first_filter;
    if (!p.contiguous) return {image, tile_pixels};
    const PixelRun run(p, tile);
    return {image + std::int64_t{run.start} * p.out_channels, run.count};
  }

  __device__ __forceinline__ void drain(const TileMap& tile, const Places& at) const {
    if (p.one_run) {
      if (thread == 0 && at.count > 0) {
        ptx::bulk_store(at.output, buffer, at.count * row_bytes);
        ptx::bulk_commit();
        ptx::bulk_wait_read<0>();
      }
    } else if (p.out_channels * sizeof(Out) % sizeof(uint4) == 0) {
      drain_by<uint4>(tile, at);
    } else {
      drain_by<Out>(tile, at);
    }
  }

  /// Storing side: tells the computing side about the tile to come. Threads 0 .. 63.
  __device__ __forceinline__ void announce(const TileMap& tile, PixelPlaces& places) const {
    if (thread >= tile_pixels) return;
    const int offset = pixel_offset(p, tile, thread);
    const int pixel = p.contiguous ? offset - PixelRun(p, tile).start : thread;
    places.offset[thread] = offset < 0 ? -1 : pixel * row_bytes;
  }

 private:
  /// One pixel's filters: lane 4g + t of the warp has 16k + 4t .. + 3 of pixel g. Neighbouring pixels' rows begin on
  /// few different banks; so they store their blocks of 16 filters in different orders.
  template <int from>
  __device__ __forceinline__ void put_pixel(int offset, const float (&y)[filters / 2]) const {
    constexpr int words = row_bytes / 4 % 32;
    // 8-byte stores: half a warp, 4 pixels of 8 words, at a time; 16-byte stores: a quarter, 2 pixels of 16 words.
    constexpr int flips = sizeof(Out) == 4 ? (words == 0 ? 1 : 0) : (words == 0 ? 3 : words == 16 ? 1 : 0);
    const int row = offset / row_bytes;
    const int flip = sizeof(Out) == 4 || words == 0 ? row & flips : row >> 1 & flips;
    const bool wanted = offset >= 0;
    const std::uint32_t to = ptx::shared_address(buffer) + offset + (thread & 3) * (block_bytes / 4);
    Quad<Out> block[filters / 16];
#pragma unroll
    for (int k = 0; k < filters / 16; ++k) {
      block[k] = Quad<Out>(y[8 * k + from], y[8 * k + 1 + from], y[8 * k + 4 + from], y[8 * k + 5 + from]);
    }
    if constexpr ((flips & 1) != 0) {
#pragma unroll
      for (int k = 0; k < filters / 16; k += 2) exchange(block[k], block[k + 1], (flip & 1) != 0);
    }
    if constexpr ((flips & 2) != 0) {
#pragma unroll
      for (int k = 0; k < filters / 16; ++k) {
        if ((k & 2) == 0) exchange(block[k], block[k + 2], (flip & 2) != 0);
      }
    }
#pragma unroll
    for (int k = 0; k < filters / 16; ++k) ptx::store_shared(to + (k ^ flip) * block_bytes, block[k].bits, wanted);
  }

  /// Unit by unit, each of one pixel.
  template <class Unit>
  __device__ __forceinline__ void drain_by(const TileMap& tile, const Places& at) const {
    constexpr int units = row_bytes / static_cast<int>(sizeof(Unit)), width = sizeof(Unit) / sizeof(Out);
    const int exist = min((p.out_channels - first_filter) / width, units);
#pragma unroll 4
    for (int i = thread; i < tile_pixels * units; i += 128) {
      const int pixel = i / units, unit = i - pixel * units;
      const int offset = p.contiguous ? (pixel < at.count ? pixel : -1) : pixel_offset(p, tile, pixel);
      if (offset < 0 || unit >= exist) continue;
      Out* to = at.output + std::int64_t{offset} * p.out_channels + unit * width;
      *reinterpret_cast<Unit*>(to) = reinterpret_cast<const Unit*>(buffer)[i];
    }
  }
};

}  // namespace lamina::cuda::first_layer
