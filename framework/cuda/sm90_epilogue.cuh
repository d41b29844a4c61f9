#pragma once

#include "lamina/cuda/sm90_barrier.cuh"
#include "lamina/cuda/sm90_modes.cuh"

/// Epilogue: one warpgroup's tile, 64 pixels x filters, from wgmma's registers to NCHW, through a transposing buffer
/// of its own so that each store instruction writes one filter's consecutive pixels.
namespace lamina::cuda::sm90 {

/// The buffer's row: 64 pixels of one filter. 68 floats (= 4 mod 32 words): the 8 x 4 lanes of a fragment store fall on
/// 32 banks; 72 halves (= 36 words) do the same for stmatrix.
template <class Out>
inline constexpr int row_pitch = sizeof(Out) == 4 ? 68 : 72;

template <class Out, int filters>
inline constexpr int epilogue_bytes = filters * row_pitch<Out> * static_cast<int>(sizeof(Out));

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
  const int down = position / p.pitch;
  const int row = tile.row + down, column = position - down * p.pitch;
  const int x = tile.first_column + column;
  return row < p.out_height && column < p.strip_width && x < p.out_width ? row * p.out_width + x : -1;
}

/// Four 8 x 8 blocks of 16-bit values, transposed: lane l gives the address of row l % 8 of block l / 8.
__device__ __forceinline__ void store_transposed(const void* at, const std::uint32_t (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(at)),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

template <class Out, int filters>
struct Epilogue {
  const Params& p;
  Out* buffer;      // [filters][row_pitch], shared
  int first_filter;
  int barrier;      // the warpgroup's named barrier
  int thread;       // within the warpgroup

  /// `y` [filters / 2]: this thread's finished outputs, in fragment order.
  __device__ __forceinline__ void store(const TileMap& tile, std::int64_t image, const float (&y)[filters / 2]) const {
    warpgroup_sync(barrier);  // everyone has read the previous tile
    to_buffer(y);
    warpgroup_sync(barrier);
    Out* output = static_cast<Out*>(p.output) + (image * p.out_channels + first_filter) * plane();
    if constexpr (sizeof(Out) == 2) {
      if (p.paired_stores) return store_pairs(tile, output);
    }
    store_single(tile, output);
  }

 private:
  __device__ __forceinline__ std::int64_t plane() const { return std::int64_t{p.out_height} * p.out_width; }

  __device__ __forceinline__ void to_buffer(const float (&y)[filters / 2]) const {
    const int warp = thread >> 5, lane = thread & 31;
    if constexpr (sizeof(Out) == 4) {
      Out* at = buffer + 2 * (lane & 3) * row_pitch<Out> + 16 * warp + (lane >> 2);
#pragma unroll
      for (int j = 0; j < filters / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          at[(8 * j + e) * row_pitch<Out>] = y[4 * j + e];
          at[(8 * j + e) * row_pitch<Out> + 8] = y[4 * j + 2 + e];
        }
      }
    } else {
      const Out* at = buffer + (8 * (lane >> 4) + (lane & 7)) * row_pitch<Out> + 16 * warp + (lane & 8);
#pragma unroll
      for (int j = 0; j < filters / 8; j += 2) {
        const std::uint32_t v[4] = {Pair<Out>::pack(y[4 * j], y[4 * j + 1]), Pair<Out>::pack(y[4 * j + 2], y[4 * j + 3]),
                                    Pair<Out>::pack(y[4 * j + 4], y[4 * j + 5]),
                                    Pair<Out>::pack(y[4 * j + 6], y[4 * j + 7])};
        store_transposed(at + 8 * j * row_pitch<Out>, v);
      }
    }
  }

  /// One element per lane: 128 (f32) or 64 consecutive bytes per instruction.
  __device__ __forceinline__ void store_single(const TileMap& tile, Out* output) const {
    const int warp = thread >> 5, lane = thread & 31;
    const int left = pixel_offset(p, tile, lane), right = pixel_offset(p, tile, lane + 32);
    const int count = min(filters, p.out_channels - first_filter);
    Out* line = output + warp * plane();
#pragma unroll 8
    for (int f = warp; f < count; f += 4, line += 4 * plane()) {
      const Out* from = buffer + f * row_pitch<Out> + lane;
      if (left >= 0) line[left] = from[0];
      if (right >= 0) line[right] = from[32];
    }
  }

  /// 16-bit outputs of one strip: a tile's pixels d = 0, 1, ... are consecutive in memory, but where a plane starts at
  /// an odd element the aligned pairs are (1, 2), (3, 4), ...
  __device__ __forceinline__ void store_pairs(const TileMap& tile, Out* output) const {
    const int warp = thread >> 5, lane = thread & 31;
    const int gap = p.pitch - p.strip_width;
    // The tile may start in the gap behind a row; its first pixel is then the next row's first.
    const int skipped = tile.column >= p.strip_width ? p.pitch - tile.column : 0;
    const int first_row = tile.row + (skipped > 0), first_x = skipped > 0 ? 0 : tile.column;
    const int start = first_row * p.out_width + first_x;
    const int to_row_end = p.strip_width - first_x;  // pixels before the first gap
    const auto tile_row = [&](int d) {
      const int beyond = d - to_row_end;
      return min(skipped + d + (beyond < 0 ? 0 : (beyond / p.strip_width + 1) * gap), tile_pixels - 1);
    };
    int pixels = 0;  // the d with tile_row(d) < 64 that lie in the image
    if (start < p.out_height * p.out_width) {
      const int span = tile_pixels - skipped, beyond = span - to_row_end;
      const int whole = beyond <= 0 ? span
                                    : to_row_end + beyond / p.pitch * p.strip_width + max(beyond % p.pitch - gap, 0);
      pixels = min(whole, p.out_height * p.out_width - start);
    }
    const int before = tile_row(max(2 * lane - 1, 0)), even = tile_row(2 * lane), odd = tile_row(2 * lane + 1);
    const int last = tile_row(63);
    const int count = min(filters, p.out_channels - first_filter);
    using Bits = std::uint16_t;
    Bits* line = reinterpret_cast<Bits*>(output) + warp * plane() + start;
#pragma unroll 8
    for (int f = warp; f < count; f += 4, line += 4 * plane()) {
      const Bits* from = reinterpret_cast<const Bits*>(buffer) + f * row_pitch<Out>;
      const int shift = static_cast<int>((reinterpret_cast<std::uintptr_t>(line) >> 1) & 1);
      const int d = 2 * lane - shift;  // this lane's pair is pixels d and d + 1
      const Bits a = from[shift ? before : even], b = from[shift ? even : odd];
      if (d >= 0 && d + 1 < pixels) {
        *reinterpret_cast<std::uint32_t*>(line + d) = static_cast<std::uint32_t>(b) << 16 | a;
      } else if (d >= 0 && d < pixels) {
        line[d] = a;
      } else if (d < 0 && pixels > 0) {
        line[0] = b;
      }
      if (shift != 0 && lane == 31 && pixels == 64) line[63] = from[last];
    }
  }
};

}  // namespace lamina::cuda::sm90
