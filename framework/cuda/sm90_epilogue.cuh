#pragma once

#include "lamina/cuda/sm90_barrier.cuh"
#include "lamina/cuda/sm90_modes.cuh"

/// Epilogue: one warpgroup's tile, 64 pixels x filters, from wgmma's registers to NCHW, through a transposing buffer
/// of its own so that a store instruction writes consecutive pixels of one or two filters.
namespace lamina::cuda::sm90 {

/// Where the rows of a tile go. Row i of the tile is ring position first + i; positions beyond a strip's width are the
/// columns that windows reach into, not outputs.
struct TileMap {
  int row;           // output row of tile row 0
  int column;        // its column within the strip, 0 .. pitch - 1
  int first_column;  // of the strip
};

/// Offset within the output plane of tile row i, or -1.
__device__ __forceinline__ int pixel_offset(const Params& p, const TileMap& tile, int i) {
  const int position = tile.column + i;
  const int down = p.by_pitch.divide(position);
  const int row = tile.row + down, column = position - down * p.pitch;
  const int x = tile.first_column + column;
  return row < p.out_height && column < p.strip_width && x < p.out_width ? row * p.out_width + x : -1;
}

/// With one strip, a tile's pixels are consecutive in memory: [start, start + count) of the output plane.
struct PixelRun {
  int start, count;

  __device__ __forceinline__ PixelRun(const Params& p, const TileMap& tile) {
    // A tile may begin or end in the overhang behind a row.
    start = tile.row * p.out_width + min(tile.column, p.out_width);
    const int position = tile.column + tile_pixels - 1, down = p.by_pitch.divide(position);
    const int stop = (tile.row + down) * p.out_width + min(position - down * p.pitch + 1, p.out_width);
    count = max(min(stop, p.out_height * p.out_width) - start, 0);
  }
  /// Tile row of pixel d of the run; any row for d outside it.
  __device__ __forceinline__ int tile_row(const Params& p, const TileMap& tile, int d) const {
    const int offset = start + max(min(d, count - 1), 0);
    const int row = p.by_out_width.divide(offset);
    return min((row - tile.row) * p.pitch + offset - row * p.out_width - tile.column, tile_pixels - 1);
  }
};

/// Four 8 x 8 blocks of 16-bit values, transposed: lane l gives the address of row l % 8 of block l / 8.
__device__ __forceinline__ void store_transposed(const void* at, const std::uint32_t (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(at)),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

template <class Out, int filters>
struct Epilogue {
  static constexpr int rows = buffer_rows(filters, sizeof(Out));  // columns of the tile that pass at a time
  static constexpr int blocks = rows / 16;                        // of 16 columns; what differs by 16 is alike
  static constexpr int pitch = sizeof(Out) == 4 ? f32_row_pitch : f16_row_pitch;
  static_assert(rows % 16 == 0, "column_filter permutes within 16 columns");

  const Params& p;
  Out* buffer;  // [rows][pitch], shared
  int first_filter;
  int barrier;  // the warpgroup's named barrier
  int thread;   // within the warpgroup

  /// Where this thread's part of a tile goes; worked out while the tensor cores are busy.
  /// Warp w writes filters 16k + 4w + f, f = 0 .. 3, which are buffer rows 16k + 8 (f >> 1) + 2w + (f & 1).
  struct Places {
    TileMap tile;
    char* output;                            // of the block's first filter
    std::uint32_t put[2][4];                 // f32: shared addresses of this thread's two pixels in filter f (mod 4)
                                             // 16-bit: of the two pixels that it pairs, as buffer rows have them
    std::uint32_t unit_from[2], unit_to[4];  // f32: whole 16-byte units; 16-bit: pairs: bytes from `output`
    std::uint32_t single_from, single_to;    // pixels before or behind them
    bool whole[4], single;
  };

  __device__ __forceinline__ Places prepare(const TileMap& tile, std::int64_t image) const {
    Places at;
    at.tile = tile;
    Out* output = static_cast<Out*>(p.output) + (image * p.out_channels + first_filter) * plane();
    if (p.contiguous) {
      const PixelRun run(p, tile);
      output += run.start;
      const int base = static_cast<int>(reinterpret_cast<std::uintptr_t>(output) / sizeof(Out));
      if constexpr (sizeof(Out) == 4) {
        prepare_units(tile, run, base, at);
      } else {
        prepare_pairs(tile, run, base, at);
      }
    }
    at.output = reinterpret_cast<char*>(output);
    warpgroup_sync(barrier);  // everyone has read what the buffer held
    return at;
  }

  /// `y` [filters / 2]: this thread's finished outputs, in fragment order.
  __device__ __forceinline__ void store(const Places& at, const float (&y)[filters / 2]) const {
    const bool guarded = first_filter + filters > p.out_channels;
    if (!p.contiguous) {
      store_strip(at, y);
    } else if constexpr (sizeof(Out) == 4) {
      guarded ? store_units<true>(at, y) : store_units<false>(at, y);
    } else {
      guarded ? store_pairs<true>(at, y) : store_pairs<false>(at, y);
    }
  }

 private:
  __device__ __forceinline__ std::int64_t plane() const { return std::int64_t{p.out_height} * p.out_width; }

  /// Bytes from the buffer's start to a warp's row for filter f (mod 16).
  __device__ __forceinline__ static int warp_row(int warp, int f) {
    return (8 * (f >> 1) + 2 * warp + (f & 1)) * pitch * static_cast<int>(sizeof(Out));
  }

  /// f32: position s of a row = the run's pixel s - shift, where `shift` puts 16-byte units of the buffer onto 16-byte
  /// units of memory. It depends on the filter modulo 4, which all lanes of a fragment store have in common.
  __device__ __forceinline__ void prepare_units(const TileMap& tile, const PixelRun& run, int base, Places& at) const {
    const int warp = thread >> 5, lane = thread & 31, step = p.out_height * p.out_width;
    const std::uint32_t shared = shared_address(buffer);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int offset = pixel_offset(p, tile, 16 * warp + (lane >> 2) + 8 * i);
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        constexpr int nowhere = pitch - 1;  // the one position of a row that no pixel reaches
        const int position = offset < 0 ? nowhere : offset - run.start + ((base + f * step) & 3);
        at.put[i][f] = shared + warp_row(lane & 3, f) + 4 * position;  // columns 8j + 2t + e are filters 16k + 4t + f
      }
    }
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {  // half a warp per filter: f = 2 * odd + half
      const int f = 2 * odd + (lane >> 4), filter = 4 * warp + f, shift = (base + filter * step) & 3;
      const int unit = (lane & 15) + (shift != 0 ? 1 : 0);  // the first is partial if shifted
      at.whole[odd] = 4 * unit + 4 <= shift + run.count;
      at.unit_from[odd] = shared + warp_row(warp, f) + 16 * unit;
      at.unit_to[odd] = static_cast<std::uint32_t>(filter * step + 4 * unit - shift) * 4u;
    }
    // lane = 8 f + which: three before, three behind.
    const int f = lane >> 3, which = lane & 7, filter = 4 * warp + f, shift = (base + filter * step) & 3;
    const int before = min(shift == 0 ? 0 : 4 - shift, run.count), behind = (shift + run.count) & 3;
    const int d = which < 3 ? which : run.count - 1 - (which - 3);
    at.single = which < 3 ? which < before : which < 6 && which - 3 < behind && d >= before;
    at.single_from = shared + warp_row(warp, f) + 4 * (shift + d);
    at.single_to = static_cast<std::uint32_t>(filter * step + d) * 4u;
  }

  template <bool guarded>
  __device__ __forceinline__ void store_units(const Places& at, const float (&y)[filters / 2]) const {
    const int warp = thread >> 5, lane = thread & 31;
    char* to = at.output;
    const std::int64_t step = 64 * plane();    // 16 planes
    int last = p.out_channels - first_filter;  // guarded: filters from here on do not exist
#pragma unroll
    for (int first = 0; first < filters; first += rows, last -= rows) {
      if (first != 0) warpgroup_sync(barrier);
#pragma unroll
      for (int k = 0; k < blocks; ++k) {
#pragma unroll
        for (int f = 0; f < 4; ++f) {
          const int j = 2 * k + (f >> 1), from = first / 2 + 4 * j + (f & 1);
          store_shared(at.put[0][f] + 64 * k * pitch, y[from]);
          store_shared(at.put[1][f] + 64 * k * pitch, y[from + 2]);
        }
      }
      warpgroup_sync(barrier);
      float4 unit[blocks][2];
      float single[blocks];
#pragma unroll
      for (int k = 0; k < blocks; ++k) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) unit[k][odd] = load_shared4(at.unit_from[odd] + 64 * k * pitch);
        single[k] = load_shared(at.single_from + 64 * k * pitch);
      }
      // The address of a store is a base common to all lanes and a 32-bit offset that stays.
#pragma unroll
      for (int k = 0; k < blocks; ++k, to += step) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
          const bool exists = !guarded || 16 * k + 4 * warp + 2 * odd + (lane >> 4) < last;
          if (at.whole[odd] && exists) *reinterpret_cast<float4*>(to + at.unit_to[odd]) = unit[k][odd];
        }
        const bool exists = !guarded || 16 * k + 4 * warp + (lane >> 3) < last;
        if (at.single && exists) *reinterpret_cast<float*>(to + at.single_to) = single[k];
      }
    }
  }

  /// 16 bits: buffer rows hold tile rows; where a plane starts at an odd element, the aligned pairs of the run are
  /// (1, 2), (3, 4), ... What pairs leave over at the ends is stored singly.
  __device__ __forceinline__ void prepare_pairs(const TileMap& tile, const PixelRun& run, int base, Places& at) const {
    const int warp = thread >> 5, lane = thread & 31, step = p.out_height * p.out_width;
    const std::uint32_t shared = shared_address(buffer);
    const int row_of[3] = {run.tile_row(p, tile, 2 * lane - 1), run.tile_row(p, tile, 2 * lane),
                           run.tile_row(p, tile, 2 * lane + 1)};
#pragma unroll
    for (int f = 0; f < 4; ++f) {
      const int filter = 4 * warp + f, shift = (base + filter * step) & 1;
      const int d = 2 * lane - shift;  // this lane's pair is pixels d and d + 1
      at.whole[f] = d >= 0 && d + 1 < run.count;
      at.put[0][f] = shared + warp_row(warp, f) + 2 * (shift != 0 ? row_of[0] : row_of[1]);
      at.put[1][f] = shared + warp_row(warp, f) + 2 * (shift != 0 ? row_of[1] : row_of[2]);
      at.unit_to[f] = static_cast<std::uint32_t>(filter * step + d) * 2u;
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
  __device__ __forceinline__ void store_pairs(const Places& at, const float (&y)[filters / 2]) const {
    const int warp = thread >> 5, lane = thread & 31;
    to_buffer(y, 0);
    warpgroup_sync(barrier);
    const std::int64_t step = 32 * plane();  // 16 planes
    const int last = p.out_channels - first_filter;
    char* to = at.output;
#pragma unroll
    for (int k = 0; k < blocks; ++k, to += step) {
      std::uint32_t pair[4];
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        pair[f] = load_shared16(at.put[0][f] + 32 * k * pitch) | load_shared16(at.put[1][f] + 32 * k * pitch) << 16;
      }
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        const bool exists = !guarded || 16 * k + 4 * warp + f < last;
        if (at.whole[f] && exists) *reinterpret_cast<std::uint32_t*>(to + at.unit_to[f]) = pair[f];
      }
    }
#pragma unroll
    for (int k = 0; k < blocks; k += 4) {
      const int block = k + (lane >> 3), filter = 16 * block + 4 * warp + ((lane >> 1) & 3);
      if (at.single && block < blocks && (!guarded || filter < last)) {
        *reinterpret_cast<std::uint16_t*>(at.output + k * step + at.single_to) =
            static_cast<std::uint16_t>(load_shared16(at.single_from + 32 * k * pitch));
      }
    }
  }

  /// Position i of buffer row c = tile row i of column c.
  __device__ __forceinline__ void to_buffer(const float (&y)[filters / 2], int first) const {
    const int warp = thread >> 5, lane = thread & 31;
    if constexpr (sizeof(Out) == 4) {
      Out* at = buffer + 2 * (lane & 3) * pitch + 16 * warp + (lane >> 2);
#pragma unroll
      for (int j = 0; j < rows / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          at[(8 * j + e) * pitch] = y[first / 2 + 4 * j + e];
          at[(8 * j + e) * pitch + 8] = y[first / 2 + 4 * j + 2 + e];
        }
      }
    } else {
      const Out* at = buffer + (8 * (lane >> 4) + (lane & 7)) * pitch + 16 * warp + (lane & 8);
#pragma unroll
      for (int j = 0; j < rows / 8; j += 2) {
        const std::uint32_t v[4] = {
            Pair<Out>::pack(y[4 * j], y[4 * j + 1]), Pair<Out>::pack(y[4 * j + 2], y[4 * j + 3]),
            Pair<Out>::pack(y[4 * j + 4], y[4 * j + 5]), Pair<Out>::pack(y[4 * j + 6], y[4 * j + 7])};
        store_transposed(at + 8 * j * pitch, v);
      }
    }
  }

  /// A tile of a strip: one element per lane, wherever it goes.
  __device__ __forceinline__ void store_strip(const Places& at, const float (&y)[filters / 2]) const {
    const int warp = thread >> 5, lane = thread & 31;
    const int left = pixel_offset(p, at.tile, lane), right = pixel_offset(p, at.tile, lane + 32);
#pragma unroll
    for (int first = 0; first < filters; first += rows) {
      if (first != 0) warpgroup_sync(barrier);
      to_buffer(y, first);
      warpgroup_sync(barrier);
#pragma unroll 4
      for (int row = warp; row < rows; row += 4) {
        const int filter = first + column_filter(row);
        if (first_filter + filter >= p.out_channels) continue;
        const Out* from = buffer + row * pitch + lane;
        Out* to = reinterpret_cast<Out*>(at.output) + filter * plane();
        if (left >= 0) to[left] = from[0];
        if (right >= 0) to[right] = from[32];
      }
    }
  }
};

}  // namespace lamina::cuda::sm90
