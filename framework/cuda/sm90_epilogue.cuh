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
inline constexpr int epilogue_bytes = filters* row_pitch<Out>* static_cast<int>(sizeof(Out)) > least_buffer_bytes
                                          ? filters* row_pitch<Out>* static_cast<int>(sizeof(Out))
                                          : least_buffer_bytes;

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

/// Four 8 x 8 blocks of 16-bit values, transposed: lane l gives the address of row l % 8 of block l / 8.
__device__ __forceinline__ void store_transposed(const void* at, const std::uint32_t (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(at)),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

template <class Out, int filters>
struct Epilogue {
  static constexpr int rows = filters / 4;             // of the buffer, per warp
  static constexpr int batch = rows % 8 == 0 ? 8 : 4;  // loaded together, so that their latencies overlap

  const Params& p;
  Out* buffer;  // [filters][row_pitch], shared
  int first_filter;
  int barrier;  // the warpgroup's named barrier
  int thread;   // within the warpgroup

  /// `y` [filters / 2]: this thread's finished outputs, in fragment order.
  __device__ __forceinline__ void store(const TileMap& tile, std::int64_t image, const float (&y)[filters / 2]) const {
    warpgroup_sync(barrier);  // everyone has read the previous tile
    to_buffer(y);
    warpgroup_sync(barrier);
    Out* output = static_cast<Out*>(p.output) + (image * p.out_channels + first_filter) * plane();
    if (first_filter + filters <= p.out_channels) {
      to_memory<false>(tile, output);
    } else {
      to_memory<true>(tile, output);
    }
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
        const std::uint32_t v[4] = {
            Pair<Out>::pack(y[4 * j], y[4 * j + 1]), Pair<Out>::pack(y[4 * j + 2], y[4 * j + 3]),
            Pair<Out>::pack(y[4 * j + 4], y[4 * j + 5]), Pair<Out>::pack(y[4 * j + 6], y[4 * j + 7])};
        store_transposed(at + 8 * j * row_pitch<Out>, v);
      }
    }
  }

  /// Warp w writes filters w, w + 4, ...; `output` is the plane of filter 0. The address of a store is a base that all
  /// lanes share and a 32-bit offset that stays: stores then wait for no address registers to come free.
  template <bool guarded>
  __device__ __forceinline__ void to_memory(const TileMap& tile, Out* output) const {
    if constexpr (sizeof(Out) == 2) {
      if (p.paired_stores) return store_pairs<guarded>(tile, reinterpret_cast<std::uint16_t*>(output));
    }
    store_single<guarded>(tile, output);
  }

  /// One element per lane: 128 (f32) or 64 consecutive bytes per instruction.
  template <bool guarded>
  __device__ __forceinline__ void store_single(const TileMap& tile, Out* output) const {
    const int warp = thread >> 5, lane = thread & 31;
    const int left = pixel_offset(p, tile, lane), right = pixel_offset(p, tile, lane + 32);
    const std::uint32_t to_left = (warp * p.out_height * p.out_width + left) * static_cast<int>(sizeof(Out));
    const std::uint32_t to_right = (warp * p.out_height * p.out_width + right) * static_cast<int>(sizeof(Out));
    char* base = reinterpret_cast<char*>(output);
    const Out* from = buffer + warp * row_pitch<Out> + lane;
    const std::int64_t step = 4 * plane() * static_cast<int>(sizeof(Out));
#pragma unroll
    for (int r = 0; r < rows; r += batch) {
      Out v[batch][2];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        v[i][0] = from[4 * (r + i) * row_pitch<Out>], v[i][1] = from[4 * (r + i) * row_pitch<Out> + 32];
      }
#pragma unroll
      for (int i = 0; i < batch; ++i, base += step) {
        const bool wanted = !guarded || first_filter + warp + 4 * (r + i) < p.out_channels;
        if (wanted && left >= 0) *reinterpret_cast<Out*>(base + to_left) = v[i][0];
        if (wanted && right >= 0) *reinterpret_cast<Out*>(base + to_right) = v[i][1];
      }
    }
  }

  /// 16-bit outputs of one strip: a tile's pixels d = 0, 1, ... are consecutive in memory, but where a plane starts at
  /// an odd element the aligned pairs are (1, 2), (3, 4), ... That is the same for all planes of a warp: they are
  /// four planes apart. What pairs leave over at the ends is stored singly by lanes 0 and 1.
  template <bool guarded>
  __device__ __forceinline__ void store_pairs(const TileMap& tile, std::uint16_t* output) const {
    const int warp = thread >> 5, lane = thread & 31;
    // A tile may begin or end in the overhang behind a row.
    const int start = tile.row * p.out_width + min(tile.column, p.out_width);
    const int position = tile.column + tile_pixels - 1, down = p.by_pitch.divide(position);
    const int stop = (tile.row + down) * p.out_width + min(position - down * p.pitch + 1, p.out_width);
    const int pixels = min(stop, p.out_height * p.out_width) - start;
    const auto tile_row = [&](int d) {
      const int offset = start + max(min(d, pixels - 1), 0);
      const int row = p.by_out_width.divide(offset);
      return min((row - tile.row) * p.pitch + offset - row * p.out_width - tile.column, tile_pixels - 1);
    };
    const int warp_plane = warp * p.out_height * p.out_width;
    const std::uint16_t* line = output + warp_plane + start;
    const int shift = static_cast<int>((reinterpret_cast<std::uintptr_t>(line) >> 1) & 1);
    const int first = 2 * lane - shift;  // this lane's pair is pixels `first` and `first + 1`
    const bool has_pair = first >= 0 && first + 1 < pixels;
    const bool has_single = pixels > 0 && (lane == 0 ? shift != 0 : lane == 1 && ((pixels - shift) & 1) != 0);
    const int single = lane == 0 ? 0 : pixels - 1;
    const std::uint16_t* buffer_row = reinterpret_cast<const std::uint16_t*>(buffer) + warp * row_pitch<Out>;
    const std::uint16_t* from_low = buffer_row + tile_row(first);
    const std::uint16_t* from_high = buffer_row + tile_row(first + 1);
    const std::uint16_t* from_single = buffer_row + tile_row(single);
    const std::uint32_t to_pair = (warp_plane + start + first) * 2, to_single = (warp_plane + start + single) * 2;
    char* base = reinterpret_cast<char*>(output);
    const std::int64_t step = 8 * plane();
#pragma unroll
    for (int r = 0; r < rows; r += batch) {
      std::uint32_t pair[batch];
      std::uint16_t lone[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int at = 4 * (r + i) * row_pitch<Out>;
        pair[i] = static_cast<std::uint32_t>(from_high[at]) << 16 | from_low[at];
        lone[i] = from_single[at];
      }
#pragma unroll
      for (int i = 0; i < batch; ++i, base += step) {
        const bool wanted = !guarded || first_filter + warp + 4 * (r + i) < p.out_channels;
        if (wanted && has_pair) *reinterpret_cast<std::uint32_t*>(base + to_pair) = pair[i];
        if (wanted && has_single) *reinterpret_cast<std::uint16_t*>(base + to_single) = lone[i];
      }
    }
  }
};

}  // namespace lamina::cuda::sm90
