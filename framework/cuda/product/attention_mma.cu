// Attention of f16 or bf16 on tensor cores: a block of 4 warps owns 64 rows of one image and group, a warp 16 of them,
// and runs over the positions 64 at a time. Queries stay in registers as fragments of mma.sync, scores and outputs as
// its accumulators; the weights of a tile are, rounded to 16 bits, the fragments of the second product as they are.
// Keys and values lie in shared memory (at most 69,632 bytes, dynamic, in two stages), rows 16 bytes longer than D, so
// that the 8 rows that ldmatrix reads fall into different banks; the next ones come by cp.async meanwhile where rows
// begin on 16 bytes, else they are copied element by element.
//
// Preconditions: D and E at most `most`. A row that does not see all of a tile leaves out what is not finite there by
// plain multiply-adds.
// Sources: Dao, "FlashAttention-2", 2023; PTX ISA, "mma.m16n8k16", "ldmatrix".

#include <algorithm>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/attention.h"
#include "lamina/cuda/product/attention_rows.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/shared.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using detail::AttentionExtents;

constexpr int warps = 4, threads = 32 * warps, warp_rows = 16, block_rows = warps * warp_rows;
constexpr int positions = 64, chunk = 8, stages = 2;

template <int most>
constexpr int pitch = most + chunk;
/// A stage of keys and values.
template <int most>
constexpr int stage_elements = 2 * positions* pitch<most>;

/// `rows` rows of `columns` elements as [positions, pitch] in shared memory, zeros beyond.
template <int most, bool aligned, class T>
__device__ inline void load_rows(T* to, const T* from, std::int64_t rows, int columns) {
  constexpr int chunks = most / chunk;
#pragma unroll
  for (int i = 0; i < positions * chunks / threads; ++i) {
    const int place = static_cast<int>(threadIdx.x) + i * threads, row = place / chunks,
              column = place % chunks * chunk;
    T* const here = to + row * pitch<most> + column;
    const T* const there = from + std::int64_t{row} * columns + column;
    if constexpr (aligned) {
      const bool valid = row < rows && column < columns;
      ptx::copy_async_once(ptx::shared_address(here), valid ? there : from, valid);
    } else {
      Pack<T> pack;
#pragma unroll
      for (int j = 0; j < chunk; ++j) pack.values[j] = row < rows && column + j < columns ? there[j] : T(0.0f);
      *reinterpret_cast<Pack<T>*>(here) = pack;
    }
  }
}

template <class T>
__device__ inline std::uint32_t packed(float low, float high) {
  const Pack<T, 2> pack = {from_f32<T>(low), from_f32<T>(high)};
  return *reinterpret_cast<const std::uint32_t*>(&pack);
}

/// Combines the values of the four threads that share a row.
template <class Combine>
__device__ inline float over_row(float value, Combine combine) {
  value = combine(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return combine(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

/// The weights of one tile, of two rows of each thread: the accumulators of the first product.
using Scores = float[positions / 8][4];

/// out += weights * values, as tensor cores do it: a weight of 0 makes a NaN of what is not finite.
template <int most, class T>
__device__ inline void multiply(float (&out)[most / 8][4], const Scores& weight, const T* values) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < positions / 16; ++i) {
    const std::uint32_t a[4] = {
        packed<T>(weight[2 * i][0], weight[2 * i][1]), packed<T>(weight[2 * i][2], weight[2 * i][3]),
        packed<T>(weight[2 * i + 1][0], weight[2 * i + 1][1]), packed<T>(weight[2 * i + 1][2], weight[2 * i + 1][3])};
#pragma unroll
    for (int j = 0; j < most / 16; ++j) {
      std::uint32_t b[4];
      const int row = 16 * i + lane % 16, column = 16 * j + lane / 16 * 8;
      ptx::load_transposed(b, ptx::shared_address(values + row * pitch<most> + column));
      const std::uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
      ptx::mma<T>(out[2 * j], a, first, out[2 * j]);
      ptx::mma<T>(out[2 * j + 1], a, second, out[2 * j + 1]);
    }
  }
}

/// The same by multiply-adds, of the positions that each row sees alone: [0, seen). Slow, and rarely needed.
template <int most, class T>
__device__ inline void multiply_seen(float (&out)[most / 8][4], const Scores& weight, const T* values,
                                     std::int64_t seen_low, std::int64_t seen_high) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < positions / 8; ++i) {
#pragma unroll 1
    for (int t = 0; t < 4; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float low = __shfl_sync(0xffffffffu, weight[i][h], lane / 4 * 4 + t);
        const float high = __shfl_sync(0xffffffffu, weight[i][2 + h], lane / 4 * 4 + t);
        const int position = 8 * i + 2 * t + h;
        const T* const row = values + position * pitch<most> + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < most / 8; ++j) {
          const float x = to_f32(row[8 * j]), y = to_f32(row[8 * j + 1]);
          if (position < seen_low) out[j][0] = fmaf(low, x, out[j][0]), out[j][1] = fmaf(low, y, out[j][1]);
          if (position < seen_high) out[j][2] = fmaf(high, x, out[j][2]), out[j][3] = fmaf(high, y, out[j][3]);
        }
      }
    }
  }
}

/// Whether some value of a tile is not finite; for all threads of the block.
template <int most, class T>
__device__ inline bool not_finite(const T* values) {
  bool found = false;
  for (int i = static_cast<int>(threadIdx.x); i < positions * most; i += threads) {
    found = found || !isfinite(to_f32(values[i / most * pitch<most> + i % most]));
  }
  return __syncthreads_or(found) != 0;
}

template <int most, bool aligned, class T>
__global__ void __launch_bounds__(threads) attention_mma_kernel(const T* __restrict__ q,     // [N, H, L, D]
                                                                const T* __restrict__ k,     // [N, G, S, D]
                                                                const T* __restrict__ v,     // [N, G, S, E]
                                                                const T* __restrict__ mask,  // or null
                                                                T* __restrict__ output,      // [N, H, L, E]
                                                                const __grid_constant__ AttentionExtents e) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char memory[];
  T* const shared = reinterpret_cast<T*>(memory);
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int depth = static_cast<int>(e.depth), width = static_cast<int>(e.width);
  for (std::int64_t pair = blockIdx.y; pair < e.images * e.groups; pair += gridDim.y) {
    const AttentionRows rows(e, pair);
    const std::int64_t block_row = std::int64_t{blockIdx.x} * block_rows;
    const std::int64_t own[2] = {block_row + warp * warp_rows + lane / 4, block_row + warp * warp_rows + lane / 4 + 8};
    const std::int64_t seen[2] = {rows.seen(own[0]), rows.seen(own[1])};
    const auto range = rows.range(block_row, block_rows);
    const std::int64_t end = range.most;
    // Queries pass through the place of keys once.
    __syncthreads();  // everybody is done with the last pair
    load_rows<most, aligned>(shared, q + (pair * rows.count + block_row) * e.depth, rows.count - block_row, depth);
    ptx::copy_async_commit();
    ptx::copy_async_wait<0>();
    __syncthreads();
    std::uint32_t query[most / 16][4];
#pragma unroll
    for (int d = 0; d < most / 16; ++d) {
      const int row = warp * warp_rows + lane % 16, column = 16 * d + lane / 16 * 8;
      ptx::load_matrices(query[d], ptx::shared_address(shared + row * pitch<most> + column));
    }
    __syncthreads();
    const auto fill = [&](std::int64_t position) {
      if (position < end) {
        T* const stage = shared + position / positions % stages * stage_elements<most>;
        const std::int64_t at = pair * e.positions + position;
        load_rows<most, aligned>(stage, k + at * e.depth, e.positions - position, depth);
        load_rows<most, aligned>(stage + positions * pitch<most>, v + at * e.width, e.positions - position, width);
      }
      ptx::copy_async_commit();
    };
    float out[most / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    fill(0);
    for (std::int64_t position = 0; position < end; position += positions) {
      fill(position + positions);
      ptx::copy_async_wait<1>();
      __syncthreads();
      const T* const keys = shared + position / positions % stages * stage_elements<most>;
      const T* const values = keys + positions * pitch<most>;
      Scores score = {};
#pragma unroll
      for (int d = 0; d < most / 16; ++d) {
#pragma unroll
        for (int i = 0; i < positions / 16; ++i) {
          std::uint32_t b[4];
          const int row = 16 * i + lane / 16 * 8 + lane % 8, column = 16 * d + lane / 8 % 2 * 8;
          ptx::load_matrices(b, ptx::shared_address(keys + row * pitch<most> + column));
          const std::uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
          ptx::mma<T>(score[2 * i], query[d], first, score[2 * i]);
          ptx::mma<T>(score[2 * i + 1], query[d], second, score[2 * i + 1]);
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const std::int64_t mask_row = mask != nullptr && own[h] < rows.count ? rows.mask(own[h]) : 0;
        float most_here = largest[h];
#pragma unroll
        for (int i = 0; i < positions / 8; ++i) {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const std::int64_t column = position + 8 * i + lane % 4 * 2 + j;
            float s = score[i][2 * h + j] * static_cast<float>(e.scale);
            if (column >= seen[h]) {
              s = -INFINITY;
            } else if (mask != nullptr) {
              s += to_f32(mask[mask_row + column * e.mask[3]]);
            }
            score[i][2 * h + j] = s;
            most_here = fmaxf(most_here, s);  // NaN is left out here, and found again by the exponentials
          }
        }
        most_here = over_row(most_here, [](float a, float b) { return fmaxf(a, b); });
        // Where all is -Inf so far any finite number stands for the largest: nothing weighs anything.
        const float base = most_here == -INFINITY ? 0.0f : most_here;
        const float factor = largest[h] == -INFINITY ? 1.0f : expf(largest[h] - base);
        float added = 0;
#pragma unroll
        for (int i = 0; i < positions / 8; ++i) {
#pragma unroll
          for (int j = 0; j < 2; ++j) added += score[i][2 * h + j] = expf(score[i][2 * h + j] - base);
        }
        sum[h] = sum[h] * factor + added;  // of this thread's columns
        largest[h] = most_here;
#pragma unroll
        for (int j = 0; j < most / 8; ++j) out[j][2 * h] *= factor, out[j][2 * h + 1] *= factor;
      }
      if (min(position + positions, e.positions) > range.least && not_finite<most>(values)) {
        multiply_seen<most>(out, score, values, seen[0] - position, seen[1] - position);
      } else {
        multiply<most>(out, score, values);
      }
      __syncthreads();  // everybody is done with this stage
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float total = over_row(sum[h], [](float a, float b) { return a + b; });
      if (total == 0.0f) total = 1.0f;  // a row that sees nothing is 0
      if (own[h] >= rows.count) continue;
      T* const to = output + (pair * rows.count + own[h]) * width;
#pragma unroll
      for (int j = 0; j < most / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int column = 8 * j + lane % 4 * 2 + i;
          if (column < width) to[column] = from_f32<T>(out[j][2 * h + i] / total);
        }
      }
    }
  }
#endif
}

}  // namespace

void attention_mma(int device, DType dtype, const AttentionExtents& e, const AttentionPointers& p, Stream stream) {
  const std::int64_t pairs = e.images * e.groups;
  if (pairs == 0 || e.heads == 0 || e.length == 0 || e.width == 0) return;
  const DeviceGuard guard(device);
  const bool whole =
      e.depth % chunk == 0 && e.width % chunk == 0 && aligned_to_16(p.q) && aligned_to_16(p.k) && aligned_to_16(p.v);
  const auto launch = [&]<int most, bool aligned, class T>(std::integral_constant<int, most>,
                                                           std::bool_constant<aligned>, T*) {
    constexpr int bytes = stages * stage_elements<most> * static_cast<int>(sizeof(T));
    const auto kernel = attention_mma_kernel<most, aligned, T>;
    reserve_shared_memory(device, reinterpret_cast<const void*>(kernel), bytes);
    const std::int64_t blocks = detail::ceil_div<std::int64_t>(e.heads / e.groups * e.length, block_rows);
    const dim3 grid(grid_for(blocks, 1), static_cast<unsigned>(std::min<std::int64_t>(pairs, 65535)));
    launch_kernel(kernel, {.grid = grid, .block = dim3(threads), .shared_bytes = bytes}, stream,
                  static_cast<const T*>(p.q), static_cast<const T*>(p.k), static_cast<const T*>(p.v),
                  static_cast<const T*>(p.mask), static_cast<T*>(p.output), e);
  };
  const auto with_width = [&](auto* type, auto aligned) {
    const std::int64_t most = std::max(e.depth, e.width);
    most <= 64 ? launch(std::integral_constant<int, 64>(), aligned, type)
               : launch(std::integral_constant<int, 128>(), aligned, type);
  };
  const auto run = [&](auto* type) {
    whole ? with_width(type, std::true_type()) : with_width(type, std::false_type());
  };
  dtype == DType::f16 ? run(static_cast<__half*>(nullptr)) : run(static_cast<__nv_bfloat16*>(nullptr));
}

}  // namespace lamina::cuda
