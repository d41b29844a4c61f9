#pragma once

#include "lamina/cuda/product/attention_own_rows.cuh"

namespace lamina::cuda {

/// A block has 16 rows, and its 8 warps share their positions, 32 at a time in turn, 16 of f32. Each warp copies,
/// scores and weighs by itself, in shared memory of its own (at most 143,616 bytes, dynamic, for all); at the end the
/// warps' sums meet there, and are added in the order of the warps, each brought to the largest score of all. Warps
/// multiply 16 positions at a time, and no more, because what runs once or twice has to be read from L2 first.
/// Precondition: rows of whole chunks of 16 bytes.
template <int most, bool masked, class T>
struct Warps {
  static constexpr int warps = 8, threads = 32 * warps, block_rows = 16;
  static constexpr int share = 64 / sizeof(T);  // positions that a warp copies at a time
  static constexpr int positions = 16;          // that it multiplies at a time
  /// A warp's keys and values, in whose place its sums are later: [16, most] f32, the largest scores, the weights'
  /// sums.
  static constexpr int stage_elements = 2 * share * pitch<most, T>;
  static constexpr int stage_floats = stage_elements * static_cast<int>(sizeof(T)) / 4;
  static constexpr int bytes = static_cast<int>(sizeof(T)) * (block_rows * pitch<most, T> + warps * stage_elements);
  static constexpr int resident = most <= 64 ? 2 : 1;

  __device__ __forceinline__ static void run(const BlockRows& block, const T* q, const T* k, const T* v, const T* mask,
                                             T* output, T* queries) {
    const AttentionRows& rows = block.rows;
    const auto& e = rows.e;
    const int warp = static_cast<int>(threadIdx.x / 32);
    T* const stages = queries + block_rows * pitch<most, T>;
    T *const keys = stages + warp * stage_elements, *const values = keys + share * pitch<most, T>;
    constexpr int chunks = block_rows * most / chunk<T>, copying = chunks < threads ? chunks : threads;
    if (static_cast<int>(threadIdx.x) < copying) {
      load_rows<block_rows, most, copying, 16>(queries, q, block.here, static_cast<int>(e.depth), [&](int row) {
        return row < block.here ? rows.at(e.q, block.first + row) : 0;
      });
    }
    OwnRows<most, masked, T> own(block, mask, block.first);
#pragma unroll 1
    for (int begin = warp * share; begin < block.end || begin < warps * share; begin += warps * share) {
      const int left = rows.positions - begin;
      __syncwarp();
      if (begin < block.end) {
        load_rows<share, most, 32, 16>(keys, k + begin * e.k.row, left, static_cast<int>(e.depth),
                                       [&](int row) { return row * e.k.row; });
        load_rows<share, most, 32, 16>(values, v + begin * e.v.row, left, static_cast<int>(e.width),
                                       [&](int row) { return row * e.v.row; });
      }
      ptx::copy_async_commit();
      ptx::copy_async_wait<0>();
      if (begin >= warps * share) {
        __syncwarp();
      } else {
        __syncthreads();
        load_query<most>(own.query, queries, block.scale.negative);
      }
#pragma unroll 1
      for (int at = 0; at < min(share, block.end - begin); at += positions) {
        const bool whole = begin + at + positions <= block.whole_end;
        Summands<positions / 8, T> summands;
        own.template read_mask<positions>(summands, begin + at);
        own.template attend<positions, 32, false>(whole, block.scale.of_scores, begin + at, 1,
                                                  keys + at * pitch<most, T>, values + at * pitch<most, T>, summands);
      }
    }
    __syncwarp();  // the warp is done with its keys and values
    leave_sums(reinterpret_cast<float*>(keys), own);
    __syncthreads();
#pragma unroll 1
    for (int row = warp; row < block_rows; row += warps) {
      if (row < block.here) {
        store_row(output + rows.at(e.output, block.first + row), static_cast<int>(e.width), row,
                  reinterpret_cast<const float*>(stages), block.scale.unit);
      }
    }
  }

  /// Leaves a warp's sums in its stage.
  __device__ static void leave_sums(float* stage, const OwnRows<most, masked, T>& own) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float* const largest = stage + block_rows * most;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = lane / 4 + 8 * h;
      const float total = over_row(own.softmax.sum[h], [](float a, float b) { return a + b; });
      if (lane % 4 == 0) largest[row] = own.softmax.largest[h], largest[block_rows + row] = total;
#pragma unroll
      for (int j = 0; j < most / 8; ++j)
        store_pair(stage + row * most + 8 * j + lane % 4 * 2, own.outputs[j][2 * h], own.outputs[j][2 * h + 1]);
    }
  }

  /// Adds up what the warps have of a row, and stores it.
  __device__ static void store_row(T* output, int width, int row, const float* stages, float unit) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    // A lane for each warp: what its sums are multiplied by.
    const float* const own = stages + lane % warps * stage_floats + block_rows * most + row;
    float max_of_all = own[0], factor;
#pragma unroll
    for (int distance = warps / 2; distance > 0; distance /= 2) {
      max_of_all = fmaxf(max_of_all, __shfl_xor_sync(0xffffffffu, max_of_all, distance));
    }
    factor = own[0] == -INFINITY ? 1.0f : exp2_of((own[0] - max_of_all) * unit);
    float total = factor * own[block_rows];
#pragma unroll
    for (int distance = warps / 2; distance > 0; distance /= 2) total += __shfl_xor_sync(0xffffffffu, total, distance);
    factor *= total == 0.0f ? 1.0f : 1.0f / total;  // a row that sees nothing is 0
#pragma unroll
    for (int first = 0; first < most; first += 64) {  // all lanes, as they exchange factors
      const int column = min(first + 2 * lane, most - 2);
      float2 sum = {0.0f, 0.0f};
#pragma unroll
      for (int w = 0; w < warps; ++w) {
        const float2 part = *reinterpret_cast<const float2*>(stages + w * stage_floats + row * most + column);
        const float of_warp = __shfl_sync(0xffffffffu, factor, w);
        sum.x += of_warp * part.x, sum.y += of_warp * part.y;
      }
      if (first + 2 * lane < width) store_pair(output + column, sum.x, sum.y);
    }
  }
};

}  // namespace lamina::cuda
