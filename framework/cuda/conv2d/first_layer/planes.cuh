#pragma once

#include "lamina/cuda/conv2d/first_layer/modes.cuh"
#include "lamina/cuda/conv2d/first_layer/tile.cuh"
#include "lamina/cuda/ptx/shared.cuh"

/// The way out of a tile, 64 pixels x filters, to NCHW: a computing warpgroup puts its registers into a transposing
/// buffer, and the storing warpgroup writes that out while the next tile is multiplied, consecutive pixels of one or
/// two filters at a time.
namespace lamina::cuda::first_layer {

template <class Out, int filters>
struct Planes {
  static constexpr int pitch = sizeof(Out) == 4 ? f32_row_pitch : f16_row_pitch;
  static_assert(filters % 16 == 0, "column_filter permutes within 16 columns");

  const Params& p;
  Out* buffer;  // [column of B][pitch], shared
  int first_filter;
  int thread;  // within its warpgroup

  /// Computing side: `y` [filters / 2] is this thread's outputs in fragment order. The buffer is free.
  __device__ __forceinline__ void put(const PixelPlaces& places, const float (&y)[filters / 2]) const {
    if (sizeof(Out) == 4 && p.contiguous) {
      put_aligned(places, y);
    } else {
      put_rows(y);
    }
  }

  /// Where the buffer holds tile row i of filter `f`, which `put` has written: for values that replace others.
  __device__ __forceinline__ Out& at(const PixelPlaces& places, int i, int f) const {
    const int row = filter_column(f) * pitch;
    if (sizeof(Out) != 4 || !p.contiguous) return buffer[row + i];
    return buffer[row + ((places.base + f * p.out_height * p.out_width) & 3) + places.offset[i] / 4];
  }

  /// Storing side: where this thread's part of a tile comes from and goes to; worked out before the buffer is full.
  /// Warp w writes filters 16k + 4w + f, f = 0 .. 3, which are buffer rows 16k + 8 (f >> 1) + 2w + (f & 1).
  struct Places {
    char* output;                          // of the block's first filter
    std::uint32_t from[4], high_from[4];   // f32: whole 16-byte units; 16-bit: the pixels of a pair
    std::uint32_t to[4];                   // bytes from `output`
    std::uint32_t single_from, single_to;  // pixels before or behind them
    bool whole[4], single;
  };

  __device__ __forceinline__ Places prepare(const TileMap& tile) const {
    Places at;
    Out* output = static_cast<Out*>(p.output) + (tile.image * p.out_channels + first_filter) * plane();
    if (p.contiguous) {
      const PixelRun run(p, tile);
      output += run.start;
      const int base = static_cast<int>(reinterpret_cast<std::uintptr_t>(output) / sizeof(Out));
      if constexpr (sizeof(Out) == 4) {
        prepare_units(run, base, at);
      } else {
        prepare_pairs(tile, run, base, at);
      }
    }
    at.output = reinterpret_cast<char*>(output);
    return at;
  }

  __device__ __forceinline__ void drain(const TileMap& tile, const Places& at) const {
    const bool guarded = first_filter + filters > p.out_channels;
    if (!p.contiguous) {
      drain_strip(tile, at);
    } else if constexpr (sizeof(Out) == 4) {
      guarded ? drain_units<true>(at) : drain_units<false>(at);
    } else {
      guarded ? drain_pairs<true>(at) : drain_pairs<false>(at);
    }
  }

  /// Storing side, f32: tells the computing side about the tile to come. Threads 0 .. 63.
  __device__ __forceinline__ void announce(const TileMap& tile, PixelPlaces& places) const {
    if (sizeof(Out) != 4 || !p.contiguous || thread >= tile_pixels) return;
    const PixelRun run(p, tile);
    const int offset = pixel_offset(p, tile, thread);
    places.offset[thread] = offset < 0 ? -1 : 4 * (offset - run.start);
    const Out* output =
        static_cast<Out*>(p.output) + (tile.image * p.out_channels + first_filter) * plane() + run.start;
    if (thread == 0) places.base = static_cast<int>(reinterpret_cast<std::uintptr_t>(output) >> 2) & 3;
  }

 private:
  __device__ __forceinline__ std::int64_t plane() const { return std::int64_t{p.out_height} * p.out_width; }

  /// Bytes from the buffer's start to a warp's row for filter f (mod 16).
  __device__ __forceinline__ static int warp_row(int warp, int f) {
    return (8 * (f >> 1) + 2 * warp + (f & 1)) * pitch * static_cast<int>(sizeof(Out));
  }

  /// f32: position s of a row = the run's pixel s - shift, where `shift` puts 16-byte units of the buffer onto 16-byte
  /// units of memory. It depends on the filter modulo 4, which all lanes of an instruction have in common.
  __device__ __forceinline__ void put_aligned(const PixelPlaces& places, const float (&y)[filters / 2]) const {
    const int warp = thread >> 5, lane = thread & 31, step = p.out_height * p.out_width;
    const int i = 16 * warp + (lane >> 2);
    const std::uint32_t shared = ptx::shared_address(buffer);
    const int upper = places.offset[i], lower = places.offset[i + 8];
    const int base = places.base;
#pragma unroll
    for (int f = 0; f < 4; ++f) {
      const std::uint32_t row = warp_row(lane & 3, f) + 4 * ((base + f * step) & 3);
#pragma unroll
      for (int k = 0; k < filters / 16; ++k) {  // columns 8j + 2t + e, j = 2k + (f >> 1), e = f & 1
        const int from = 8 * k + 4 * (f >> 1) + (f & 1);
        ptx::store_shared(shared + upper + row + 64 * k * pitch, y[from], upper >= 0);
        ptx::store_shared(shared + lower + row + 64 * k * pitch, y[from + 2], lower >= 0);
      }
    }
  }

  __device__ __forceinline__ void prepare_units(const PixelRun& run, int base, Places& at) const {
    const int warp = thread >> 5, lane = thread & 31, step = p.out_height * p.out_width;
    const std::uint32_t shared = ptx::shared_address(buffer);
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {  // half a warp per filter: f = 2 * odd + half
      const int f = 2 * odd + (lane >> 4), filter = 4 * warp + f, shift = (base + filter * step) & 3;
      const int unit = (lane & 15) + (shift != 0 ? 1 : 0);  // the first is partial if shifted
      at.whole[odd] = 4 * unit + 4 <= shift + run.count;
      at.from[odd] = shared + warp_row(warp, f) + 16 * unit;
      at.to[odd] = static_cast<std::uint32_t>(filter * step + 4 * unit - shift) * 4u;
    }
    // lane = 8 f + which: three before, three behind.
    const int f = lane >> 3, which = lane & 7, filter = 4 * warp + f, shift = (base + filter * step) & 3;
    const int before = min(shift == 0 ? 0 : 4 - shift, run.count), behind = (shift + run.count) & 3;
    const int d = which < 3 ? which : run.count - 1 - (which - 3);
    at.single = which < 3 ? which < before : which < 6 && which - 3 < behind && d >= before;
    at.single_from = shared + warp_row(warp, f) + 4 * (at.single ? shift + d : 0);
    at.single_to = static_cast<std::uint32_t>(filter * step + d) * 4u;
  }

  template <bool guarded>
  __device__ __forceinline__ void drain_units(const Places& at) const {
    constexpr int batch = 2;  // blocks of 16 filters whose loads are in flight together
    const int warp = thread >> 5, lane = thread & 31, last = p.out_channels - first_filter;
    char* to = at.output;
    const std::int64_t step = 64 * plane();  // 16 planes
#pragma unroll
    for (int first = 0; first < filters / 16; first += batch) {
      float4 unit[batch][2];
      float single[batch];
#pragma unroll
      for (int b = 0; b < batch && first + b < filters / 16; ++b) {
        const int k = first + b;
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) unit[b][odd] = ptx::load_shared<float4>(at.from[odd] + 64 * k * pitch);
        single[b] = ptx::load_shared<float>(at.single_from + 64 * k * pitch);
      }
      // The address of a store is a base common to all lanes and a 32-bit offset that stays.
#pragma unroll
      for (int b = 0; b < batch && first + b < filters / 16; ++b, to += step) {
        const int k = first + b;
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const bool exists = !guarded || 16 * k + 4 * warp + 2 * odd + (lane >> 4) < last;
          if (at.whole[odd] && exists) *reinterpret_cast<float4*>(to + at.to[odd]) = unit[b][odd];
        }
        const bool exists = !guarded || 16 * k + 4 * warp + (lane >> 3) < last;
        if (at.single && exists) *reinterpret_cast<float*>(to + at.single_to) = single[b];
      }
    }
  }

  /// 16 bits: buffer rows hold tile rows; where a plane starts at an odd element, the aligned pairs of the run are
  /// (1, 2), (3, 4), ... What pairs leave over at the ends is stored singly.
  __device__ __forceinline__ void prepare_pairs(const TileMap& tile, const PixelRun& run, int base, Places& at) const {
    const int warp = thread >> 5, lane = thread & 31, step = p.out_height * p.out_width;
    const std::uint32_t shared = ptx::shared_address(buffer);
    const int row_of[3] = {run.tile_row(p, tile, 2 * lane - 1), run.tile_row(p, tile, 2 * lane),
                           run.tile_row(p, tile, 2 * lane + 1)};
#pragma unroll
    for (int f = 0; f < 4; ++f) {
      const int filter = 4 * warp + f, shift = (base + filter * step) & 1;
      const int d = 2 * lane - shift;  // this lane's pair is pixels d and d + 1
      at.whole[f] = d >= 0 && d + 1 < run.count;
      at.from[f] = shared + warp_row(warp, f) + 2 * (shift != 0 ? row_of[0] : row_of[1]);
      at.high_from[f] = shared + warp_row(warp, f) + 2 * (shift != 0 ? row_of[1] : row_of[2]);
      at.to[f] = static_cast<std::uint32_t>(filter * step + d) * 2u;
    }
    // lane = 8 k + 2 f + end: the first and the last pixel of the filters of four blocks at a time.
    const int f = (lane >> 1) & 3, filter = 4 * warp + f, shift = (base + filter * step) & 1;
    const bool last = (lane & 1) != 0;
    const int d = last ? run.count - 1 : 0;
    at.single = run.count > 0 && (last ? ((run.count - shift) & 1) != 0 : shift != 0);
    at.single_from = shared + warp_row(warp, f) + 2 * run.tile_row(p, tile, d) + (lane >> 3) * 32 * pitch;
    at.single_to = static_cast<std::uint32_t>(((lane >> 3) * 16 + filter) * step + d) * 2u;
  }

  template <bool guarded>
  __device__ __forceinline__ void drain_pairs(const Places& at) const {
    const int warp = thread >> 5, lane = thread & 31;
    const std::int64_t step = 32 * plane();  // 16 planes
    const int last = p.out_channels - first_filter;
    char* to = at.output;
    const auto half = [](std::uint32_t address) { return std::uint32_t{ptx::load_shared<std::uint16_t>(address)}; };
#pragma unroll
    for (int k = 0; k < filters / 16; ++k, to += step) {
      std::uint32_t pair[4];
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        pair[f] = half(at.from[f] + 32 * k * pitch) | half(at.high_from[f] + 32 * k * pitch) << 16;
      }
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        const bool exists = !guarded || 16 * k + 4 * warp + f < last;
        if (at.whole[f] && exists) *reinterpret_cast<std::uint32_t*>(to + at.to[f]) = pair[f];
      }
    }
#pragma unroll
    for (int k = 0; k < filters / 16; k += 4) {
      const int block = k + (lane >> 3), filter = 16 * block + 4 * warp + ((lane >> 1) & 3);
      if (at.single && block < filters / 16 && (!guarded || filter < last)) {
        *reinterpret_cast<std::uint16_t*>(at.output + k * step + at.single_to) =
            ptx::load_shared<std::uint16_t>(at.single_from + 32 * k * pitch);
      }
    }
  }

  /// Position i of buffer row c = tile row i of column c.
  __device__ __forceinline__ void put_rows(const float (&y)[filters / 2]) const {
    const int warp = thread >> 5, lane = thread & 31;
    if constexpr (sizeof(Out) == 4) {
      Out* at = buffer + 2 * (lane & 3) * pitch + 16 * warp + (lane >> 2);
#pragma unroll
      for (int j = 0; j < filters / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          at[(8 * j + e) * pitch] = y[4 * j + e];
          at[(8 * j + e) * pitch + 8] = y[4 * j + 2 + e];
        }
      }
    } else {
      const Out* at = buffer + (8 * (lane >> 4) + (lane & 7)) * pitch + 16 * warp + (lane & 8);
#pragma unroll
      for (int j = 0; j < filters / 8; j += 2) {
        const std::uint32_t v[4] = {
            Pair<Out>::pack(y[4 * j], y[4 * j + 1]), Pair<Out>::pack(y[4 * j + 2], y[4 * j + 3]),
            Pair<Out>::pack(y[4 * j + 4], y[4 * j + 5]), Pair<Out>::pack(y[4 * j + 6], y[4 * j + 7])};
        ptx::store_transposed(ptx::shared_address(at + 8 * j * pitch), v);
      }
    }
  }

  /// A tile of a strip: one element per lane, wherever it goes.
  __device__ __forceinline__ void drain_strip(const TileMap& tile, const Places& at) const {
    const int warp = thread >> 5, lane = thread & 31;
    const int left = pixel_offset(p, tile, lane), right = pixel_offset(p, tile, lane + 32);
#pragma unroll 4
    for (int row = warp; row < filters; row += 4) {
      const int filter = column_filter(row);
      if (first_filter + filter >= p.out_channels) continue;
      const Out* from = buffer + row * pitch + lane;
      Out* to = reinterpret_cast<Out*>(at.output) + filter * plane();
      if (left >= 0) to[left] = from[0];
      if (right >= 0) to[right] = from[32];
    }
  }
};

}  // namespace lamina::cuda::first_layer
