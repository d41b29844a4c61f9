#pragma once

#include "lamina/cuda/product/attention_own_rows.cuh"

namespace lamina::cuda {

/// A block's 4 warps have 16 rows each, and share tiles of 64 positions, 32 of f32, which lie in shared memory in two
/// stages (at most 69,632 bytes, dynamic); the next one comes by cp.async meanwhile where rows begin on 16 bytes
/// (`aligned`), else it is copied element by element. The last one stops behind the last 16 positions that are seen,
/// and a warp without rows computes nothing.
template <int most, bool aligned, bool masked, class T>
struct Blocks {
  static constexpr int warps = 4, threads = 32 * warps, block_rows = 16 * warps;
  static constexpr int positions = 128 / sizeof(T), stage_elements = 2 * positions * pitch<most, T>;
  static constexpr int unit = aligned ? 16 : static_cast<int>(sizeof(T));
  static constexpr int bytes = 2 * stage_elements * static_cast<int>(sizeof(T));
  /// Blocks of a multiprocessor, without registers in local memory.
  static constexpr int resident = (most == 32 ? 4 : most == 64 ? 3 : 2) - (sizeof(T) == sizeof(float) ? 1 : 0);
  static_assert((positions & (positions - 1)) == 0, "a bit of the position names the stage");
  static_assert(block_rows <= 2 * positions, "queries pass through a stage");

  __device__ __forceinline__ static void run(const BlockRows& block, const T* q, const T* k, const T* v, const T* mask,
                                             T* output, T* shared) {
    const AttentionRows& rows = block.rows;
    const auto& e = rows.e;
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int depth = static_cast<int>(e.depth), width = static_cast<int>(e.width);
    const auto stage_of = [&](int position) { return shared + (position & positions) / positions * stage_elements; };
    const auto fill = [&](int position) {
      if (position < block.end) {
        T* const stage = stage_of(position);
        const int left = rows.positions - position;
        load_rows<positions, most, threads, unit>(stage, k + position * e.k.row, left, depth,
                                                  [&](int row) { return row * e.k.row; });
        load_rows<positions, most, threads, unit>(stage + positions * pitch<most, T>, v + position * e.v.row, left,
                                                  width, [&](int row) { return row * e.v.row; });
      }
      ptx::copy_async_commit();
    };
    // Queries pass through the second stage once.
    T* const queries = stage_of(positions);
    load_rows<block_rows, most, threads, unit>(
        queries, q, block.here, depth, [&](int row) { return row < block.here ? rows.at(e.q, block.first + row) : 0; });
    ptx::copy_async_commit();
    fill(0);
    ptx::copy_async_wait<1>();
    __syncthreads();
    OwnRows<most, masked, T> own(block, mask, block.first + warp * 16);
    load_query<most>(own.query, queries + warp * 16 * pitch<most, T>, block.scale.negative);
    const bool idle = own.first >= rows.count;
    for (int position = 0; position < block.end; position += positions) {
      Summands<positions / 8, T> summands;
      own.template read_mask<positions>(summands, position);
      ptx::copy_async_wait<0>();
      __syncthreads();  // everybody's copies are there, and everybody is done with the other stage
      fill(position + positions);
      const T *const keys = stage_of(position), *const values = keys + positions * pitch<most, T>;
      const bool whole = position + positions <= block.whole_end;
      if (whole && block.scale.of_scores == masked) {
        own.template attend<positions, threads, !masked>(true, masked, position, positions / 16, keys, values, summands,
                                                         idle);
      } else {
        const int left = block.end - position, sixteens = left >= positions ? positions / 16 : (left + 15) / 16;
        own.template attend<positions, threads, false>(false, block.scale.of_scores, position, sixteens, keys, values,
                                                       summands, idle);
      }
    }
    __syncthreads();  // everybody is done with the keys, and outputs pass through their place
    if (!idle) store_rows<unit>(output, own, shared + warp * 16 * pitch<most, T>);
  }
};

}  // namespace lamina::cuda
