#pragma once

// How the operands of the implicit GEMM come to shared memory, step after step and tile after tile.

#include <climits>

#include "lamina/cuda/conv2d/mma/gathered/epilogue.cuh"
#include "lamina/cuda/conv2d/mma/gathered/warps.cuh"
#include "lamina/cuda/ptx/copy.cuh"

namespace lamina::cuda::mma::gathered {

/// Shared memory of a block, in bytes from its start: the pipeline's steps, the windows of the pixels of two tiles.
template <class T>
struct Shared {
  static constexpr int step = (T::block_m + T::block_n) * step_bytes;
  static constexpr int windows = T::stages * step;
  static constexpr int bytes = windows + 2 * T::block_n * static_cast<int>(sizeof(Position));
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// One tile of the output, and one split of K.
struct Work {
  int m_tile, first_pixel, group, split, first_step, steps;

  /// Filters vary fastest: blocks that run together share their pixels.
  __device__ __forceinline__ Work(const Arguments& args, unsigned tile, int block_n) {
    const unsigned columns = args.by.m_tiles.quotient(tile), rest = args.by.n_tiles.quotient(columns);
    m_tile = static_cast<int>(tile) - static_cast<int>(columns) * args.m_tiles;
    first_pixel = (static_cast<int>(columns) - static_cast<int>(rest) * args.n_tiles) * block_n;
    split = static_cast<int>(args.by.groups.quotient(rest));
    group = static_cast<int>(rest) - split * args.geometry.groups;
    first_step = split * args.steps_per_split;
    steps = min(args.steps - first_step, args.steps_per_split);
  }
};

/// Brings one step after another of both operands into shared memory, of all tiles of a block.
template <class T, int unit_bytes>
struct Loader {
  static constexpr int units = step_bytes / unit_bytes;  // of a row; a thread stays with one of them
  static constexpr int rows_per_pass = T::threads / units;
  static constexpr int passes = T::block_n / rows_per_pass;
  static constexpr int weight_copies = T::block_m * step_bytes / (T::threads * 16);

  static_assert(T::block_n % rows_per_pass == 0, "whole passes");

  static constexpr int together = 4;
  static constexpr bool keeps = passes <= together;  // the windows of its rows, in registers

  const Arguments& args;
  Position kept[keeps ? passes : 1];
  Position* windows;    // shared, of this tile's pixels; one of two places that take turns
  Position* following;  // of the next tile's
  unsigned weight;      // this thread's first 16 bytes of the step, counted in such
  int taps;             // which tap is its own
  Position tap;
  unsigned tile;
  int steps_left;  // of the tile
  bool ended;      // all tiles are loaded: what follows are zeros, which nobody reads

  /// At the block's first tile.
  __device__ Loader(const Arguments& arguments, Position* shared_windows)
      : args(arguments), windows(shared_windows), following(shared_windows + T::block_n), tile(blockIdx.x) {
    find_windows(tile, windows);
    begin();
    __syncthreads();
    keep();
  }

  __device__ __forceinline__ void find_windows(unsigned of, Position* to) const {
    if (of >= args.tiles) return;
    const Work work(args, of, T::block_n);
    for (int i = static_cast<int>(threadIdx.x); i < T::block_n; i += T::threads) {
      const int pixel = work.first_pixel + i;
      to[i] = pixel < args.pixels ? window_at(args, work.group, pixel) : Position{};
    }
  }

  __device__ __forceinline__ void keep() {
    if constexpr (keeps) {
#pragma unroll
      for (int i = 0; i < passes; ++i) kept[i] = windows[static_cast<int>(threadIdx.x) / units + i * rows_per_pass];
    }
  }

  __device__ __forceinline__ void begin() {
    ended = tile >= args.tiles;
    if (ended) {
      tap = no_tap, steps_left = INT_MAX;
      return;
    }
    const Work work(args, tile, T::block_n);
    weight = static_cast<unsigned>((work.group * args.m_tiles + work.m_tile) * args.steps + work.first_step) *
                 (T::block_m * step_bytes / 16) +
             threadIdx.x;
    taps = work.first_step * units + static_cast<int>(threadIdx.x) % units;
    tap = args.taps[taps];
    steps_left = work.steps;
  }

  /// Starts copies of weights to shared address `shared`: of the step `ahead` of the next one, cut into `of` parts,
  /// those from `from` to `to`.
  __device__ __forceinline__ void load_weights(unsigned shared, int from, int to, int of, int ahead = 0) const {
    const int thread = static_cast<int>(threadIdx.x);
    const auto* mine = static_cast<const unsigned char*>(args.weight) + std::size_t{weight} * 16;
#pragma unroll
    for (int i = from * weight_copies / of; i < to * weight_copies / of; ++i) {
      ptx::copy_async_once(shared + static_cast<unsigned>(thread + i * T::threads) * 16,
                           mine + (ahead * T::block_m * step_bytes + i * T::threads * 16), !ended);
    }
  }

  /// The same of the next step's pixels.
  __device__ __forceinline__ void load_pixels(unsigned shared, int from, int to, int of) const {
    const int thread = static_cast<int>(threadIdx.x);
    const Position* mine = windows + thread / units;
    const auto place = [thread](int i) {
      constexpr bool alike = rows_per_pass % 8 == 0;  // the rows of all passes are swizzled so
      return swizzled(thread / units + (alike ? 0 : i * rows_per_pass), thread % units * unit_bytes) +
             (alike ? i * rows_per_pass * step_bytes : 0);
    };
#pragma unroll
    for (int some = from * passes / of; some < to * passes / of; some += together) {
      Position window[together];  // no copy waits for the one before it
#pragma unroll
      for (int j = 0; j < together; ++j) {
        const int i = some + j;
        if (i < to * passes / of) window[j] = keeps ? kept[i % (keeps ? passes : 1)] : mine[i * rows_per_pass];
      }
#pragma unroll
      for (int j = 0; j < together; ++j) {
        const int i = some + j;
        if (i >= to * passes / of) continue;
        const unsigned destination = shared + static_cast<unsigned>(T::block_m * step_bytes + place(i));
        ptx::copy_async<unit_bytes>(destination,
                                    static_cast<const unsigned char*>(args.input) +
                                        static_cast<std::size_t>(window[j].offset + tap.offset) * unit_bytes,
                                    inside(window[j], tap));
      }
    }
  }

  __device__ __forceinline__ void load(unsigned shared, int piece, int of) {
    load_weights(shared, piece, piece + 1, of);
    load_pixels(shared, piece, piece + 1, of);
    if (piece == of - 1) advance();
  }

  /// On to the next step, without a branch; after the tile's last one next_tile() is to be called.
  __device__ __forceinline__ void advance() {
    --steps_left;
    weight += T::block_m * step_bytes / 16;
    taps += units;
    if (steps_left > 0 && !ended) tap = args.taps[taps];
  }

  /// The windows of the tile after this one.
  __device__ __forceinline__ void find_following() const { find_windows(tile + gridDim.x, following); }

  /// When all threads have loaded the tile. The tile after the next one may be loaded after another barrier.
  __device__ __forceinline__ void next_tile() {
    tile += gridDim.x;
    if (tile < args.tiles) {
      Position* const done = windows;
      windows = following, following = done;
      keep();
    }
    begin();
    find_following();
  }
};

#endif

}  // namespace lamina::cuda::mma::gathered
