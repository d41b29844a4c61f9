// Attention on tensor cores: a block of 4 warps owns 64 or 128 rows of one image and group, a warp 16 or 32 of them,
// and runs over the positions 64 at a time, 32 of f32. Queries stay in registers as fragments of mma.sync, scores and
// outputs as its accumulators; the weights of a tile are, rounded to 16 bits if the operands are, the fragments of the
// second product as they are. Keys and values lie in shared memory (at most 69,632 bytes, dynamic, in two stages); the
// next ones come by cp.async meanwhile where rows begin on 16 bytes, else they are copied element by element.
//
// Whole tiles, of which every row sees everything, cost a multiply-add, an exponential of base 2 and a sum a score. The
// last one stops behind the last 16 positions that are seen, and a warp without rows computes nothing.
//
// Preconditions: D and E at most `most`. A row that does not see all of a tile leaves out what is not finite there by
// plain multiply-adds.
// Sources: Dao, "FlashAttention-2", 2023; PTX ISA, "mma.m16n8k16", "ldmatrix".

#include <algorithm>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/cuda/product/attention.h"
#include "lamina/cuda/product/attention_launch.cuh"
#include "lamina/cuda/product/attention_rows.cuh"
#include "lamina/cuda/product/attention_softmax.cuh"
#include "lamina/cuda/product/attention_tile_f32.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using detail::AttentionExtents;

constexpr int warps = 4, threads = 32 * warps, stages = 2;

template <class T>
constexpr int tile_positions = 128 / sizeof(T);

/// A stage of keys and values.
template <int most, class T>
constexpr int stage_elements = 2 * tile_positions<T>* pitch<most, T>;

/// Writes 16 rows of outputs; with rows of whole chunks by way of shared memory [16, pitch] of the warp's own.
template <int most, bool aligned, class T>
__device__ inline void store_rows(T* output, const AttentionRows& rows, std::int64_t first, const Softmax& softmax,
                                  const Outputs<most>& outputs, T* shared) {
  const int lane = static_cast<int>(threadIdx.x % 32), width = static_cast<int>(rows.e.width);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float total = over_row(softmax.sum[h], [](float a, float b) { return a + b; });
    const float factor = total == 0.0f ? 1.0f : 1.0f / total;  // a row that sees nothing is 0
    const std::int64_t own = first + lane / 4 + 8 * h;
    T* const to = aligned || own >= rows.count ? nullptr : output + rows.at(rows.e.output, own);
#pragma unroll
    for (int j = 0; j < most / 8; ++j) {
      const int column = 8 * j + lane % 4 * 2;
      const float x = outputs[j][2 * h] * factor, y = outputs[j][2 * h + 1] * factor;
      if constexpr (aligned) {
        store_pair(shared + (lane / 4 + 8 * h) * pitch<most, T> + column, x, y);
      } else if (to != nullptr) {
        if (column < width) to[column] = from_f32<T>(x);
        if (column + 1 < width) to[column + 1] = from_f32<T>(y);
      }
    }
  }
  if constexpr (aligned) {
    __syncwarp();
    constexpr int chunks = most / chunk<T>;
#pragma unroll
    for (int i = 0; i < 16 * chunks / 32; ++i) {
      const int place = lane + 32 * i, row = place / chunks, column = place % chunks * chunk<T>;
      if (first + row >= rows.count || column >= width) continue;
      *reinterpret_cast<Pack<T>*>(output + rows.at(rows.e.output, first + row) + column) =
          *reinterpret_cast<const Pack<T>*>(shared + row * pitch<most, T> + column);
    }
  }
}

/// Blocks of a multiprocessor, without registers in local memory.
template <int most, class T>
constexpr int resident = (most == 64 ? 3 : 2) - (sizeof(T) == sizeof(float) ? 1 : 0);

template <int most, int tiles, bool aligned, class T>
__global__ void __launch_bounds__(threads, resident<most, T>)
    attention_mma_kernel(const T* __restrict__ q,     // [N, H, L, D]
                         const T* __restrict__ k,     // [N, G, S, D]
                         const T* __restrict__ v,     // [N, G, S, E]
                         const T* __restrict__ mask,  // or null
                         T* __restrict__ output,      // [N, H, L, E]
                         const __grid_constant__ AttentionExtents e) {
#if __CUDA_ARCH__ >= 800
  constexpr int warp_rows = 16 * tiles, block_rows = warps * warp_rows, positions = tile_positions<T>;
  static_assert(stages == 2 && (positions & (positions - 1)) == 0, "a bit of the position names the stage");
  static_assert(block_rows <= 2 * positions, "queries pass through a stage");
  extern __shared__ __align__(16) unsigned char memory[];
  T* const shared = reinterpret_cast<T*>(memory);
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int depth = static_cast<int>(e.depth), width = static_cast<int>(e.width);
  const Scale scale(static_cast<float>(e.scale), mask != nullptr);
  for (std::int64_t pair = blockIdx.y; pair < e.images * e.groups; pair += gridDim.y) {
    const AttentionRows rows(e, pair);
    const std::int64_t block_row = std::int64_t{blockIdx.x} * block_rows, warp_row = block_row + warp * warp_rows;
    const auto range = rows.range(block_row, block_rows);
    const int end = static_cast<int>(range.most), whole_end = static_cast<int>(range.least);
    const auto stage_of = [&](int position) {
      return shared + (position & positions) / positions * stage_elements<most, T>;
    };
    const auto fill = [&](int position) {
      if (position < end) {
        T* const stage = stage_of(position);
        const int left = static_cast<int>(e.positions) - position;
        load_rows<positions, most, threads, aligned>(stage, k + rows.at_position(e.k, position), left, depth,
                                                     [&](int row) { return row * e.k.row; });
        load_rows<positions, most, threads, aligned>(stage + positions * pitch<most, T>,
                                                     v + rows.at_position(e.v, position), left, width,
                                                     [&](int row) { return row * e.v.row; });
      }
      ptx::copy_async_commit();
    };
    // Queries pass through the second stage once.
    __syncthreads();  // everybody is done with the last pair
    T* const queries = stage_of(positions);
    const int here = static_cast<int>(min(rows.count - block_row, std::int64_t{block_rows}));
    load_rows<block_rows, most, threads, aligned>(
        queries, q, here, depth, [&](int row) { return row < here ? rows.at(e.q, block_row + row) : 0; });
    ptx::copy_async_commit();
    fill(0);
    ptx::copy_async_wait<1>();
    __syncthreads();
    Query<most, T> query[tiles];
    Softmax softmax[tiles];
    Outputs<most> outputs[tiles] = {};
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      load_query<most>(query[t], queries + (warp * warp_rows + 16 * t) * pitch<most, T>, scale.negative);
    }
    const bool idle = warp_row >= rows.count;
    for (int position = 0; position < end; position += positions) {
      ptx::copy_async_wait<0>();
      __syncthreads();  // everybody's copies are there, and everybody is done with the other stage
      fill(position + positions);
      const T *const keys = stage_of(position), *const values = keys + positions * pitch<most, T>;
      const int left = end - position;
      const auto run = [&]<bool whole>(std::bool_constant<whole>) {
        const int sixteens = whole || left >= positions ? positions / 16 : (left + 15) / 16;
        // 16 bits take a product with what is not finite, unless somebody does not see it.
        const bool unseen = !whole && min(position + positions, static_cast<int>(e.positions)) > whole_end;
        const bool ragged = (unseen || sizeof(T) == sizeof(float)) && not_finite<most, threads, positions>(values);
        if (idle) return;
        Scores<positions / 8> scores[tiles] = {};
        score<most>(scores, query, keys, sixteens);
        int seen[tiles][2];
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
          seen[t][0] = seen[t][1] = positions;
          if constexpr (!whole) {
            const std::int64_t first = warp_row + 16 * t + lane / 4;
            mask_scores(scores[t], rows, first, mask, position, scale.scores, 2 * sixteens, seen[t]);
          }
          softmax[t].template weigh<whole>(scores[t], outputs[t], scale.unit, 2 * sixteens);
        }
        if (ragged) {
#pragma unroll
          for (int t = 0; t < tiles; ++t) multiply_seen<most>(outputs[t], scores[t], values, seen[t]);
        } else {
          multiply<most>(outputs, scores, values, sixteens);
        }
      };
      const bool whole = !scale.of_scores && position + positions <= whole_end;
      whole ? run(std::true_type()) : run(std::false_type());
    }
    __syncthreads();  // everybody is done with the keys, and outputs pass through their place
    if (idle) continue;
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
      store_rows<most, aligned>(output, rows, warp_row + 16 * t, softmax[t], outputs[t],
                                shared + (warp * tiles + t) * 16 * pitch<most, T>);
    }
  }
#endif
}

}  // namespace

bool attention_has_chunks(DType dtype, const AttentionExtents& e) {
  const auto chunk = static_cast<std::int64_t>(16 / size_of(dtype));
  const auto fits = [&](const detail::RowStrides& s, std::int64_t columns) {
    return s.image % chunk == 0 && s.head % chunk == 0 && s.row % chunk == 0 && columns % chunk == 0;
  };
  return fits(e.q, e.depth) && fits(e.k, e.depth) && fits(e.v, e.width) && fits(e.output, e.width);
}

void attention_mma(int device, DType dtype, const AttentionExtents& e, const AttentionPointers& p, Stream stream) {
  const std::int64_t pairs = e.images * e.groups;
  if (pairs == 0 || e.heads == 0 || e.length == 0 || e.width == 0) return;
  const DeviceGuard guard(device);
  const bool whole = attention_has_chunks(dtype, e) && aligned_to_16(p.q) && aligned_to_16(p.k) && aligned_to_16(p.v) &&
                     aligned_to_16(p.output);
  with_attention_types(dtype, e, [&]<int most, class T>(Width<most>, T*) {
    constexpr int tiles = 1;
    constexpr int bytes = stages * stage_elements<most, T> * static_cast<int>(sizeof(T));
    const auto kernel =
        whole ? attention_mma_kernel<most, tiles, true, T> : attention_mma_kernel<most, tiles, false, T>;
    reserve_shared_memory(device, reinterpret_cast<const void*>(kernel), bytes);
    const std::int64_t blocks = detail::ceil_div<std::int64_t>(e.heads / e.groups * e.length, warps * 16 * tiles);
    const dim3 grid(grid_for(blocks, 1), static_cast<unsigned>(std::min<std::int64_t>(pairs, 65535)));
    launch_kernel(kernel, {.grid = grid, .block = dim3(threads), .shared_bytes = bytes}, stream,
                  static_cast<const T*>(p.q), static_cast<const T*>(p.k), static_cast<const T*>(p.v),
                  static_cast<const T*>(p.mask), static_cast<T*>(p.output), e);
  });
}

}  // namespace lamina::cuda
