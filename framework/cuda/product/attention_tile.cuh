#pragma once

#include <cmath>
#include <cstdint>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/ptx/shared.cuh"

/// What a warp of attention on tensor cores does with a tile of keys or values, `eights` times 8 positions: rows of
/// `most` elements in shared memory, `pitch` apart. Fragments and accumulators are those of mma.sync: lane 4g + t has
/// rows g and g + 8, and of a fragment of queries, which has 32 bytes of each, words t and t + 4. Products of 16 bits
/// are here, those of f32 in attention_tile_f32.cuh.
namespace lamina::cuda {

/// Elements of 16 bytes.
template <class T>
inline constexpr int chunk = Pack<T>::size;

/// Rows are 16 bytes longer than they need be, so that the 8 rows that ldmatrix reads fall into different banks.
template <int most, class T>
inline constexpr int pitch = most + chunk<T>;

/// 16 rows of queries.
template <int most, class T>
using Query = std::uint32_t[most / (2 * chunk<T>)][4];

/// The scores or weights of 16 rows and a tile's positions.
template <int eights>
using Scores = float[eights][4];
/// Sums for 16 rows.
template <int most>
using Outputs = float[most / 8][4];

/// `count` rows of `columns` elements, row r at `from + at(r)`, as [Rows, pitch] in shared memory, zeros beyond; by
/// `threads` together, a block or a warp. Rows begin and end on whole `unit`s of bytes; those of 16 are copied by
/// cp.async.
template <int Rows, int most, int threads, int unit, class T, class At>
__device__ inline void load_rows(T* to, const T* from, int count, int columns, const At& at) {
  constexpr int chunks = most / chunk<T>;
  static_assert(Rows * chunks % threads == 0, "all threads copy alike");
  int thread = static_cast<int>(threadIdx.x) % threads;
  ptx::pin(thread);  // addresses would take the registers of the products otherwise
#pragma unroll(threads == 32 ? 4 : Rows * chunks / threads)  // a warp's many copies would be more code than work
  for (int i = 0; i < Rows * chunks / threads; ++i) {
    const int place = thread + i * threads, row = place / chunks, column = place % chunks * chunk<T>;
    T* const here = to + row * pitch<most, T> + column;
    const T* const there = from + at(row) + column;
    if constexpr (unit == 16) {
      const bool valid = row < count && column < columns;
      ptx::copy_async_once(ptx::shared_address(here), valid ? there : from, valid);
    } else {
      constexpr int together = unit / static_cast<int>(sizeof(T));
      using Unit = Pack<T, together>;
      Pack<Unit, chunk<T> / together> pack = {};
#pragma unroll
      for (int j = 0; j < chunk<T> / together; ++j) {
        if (row < count && column + j * together < columns) pack.values[j] = reinterpret_cast<const Unit*>(there)[j];
      }
      *reinterpret_cast<decltype(pack)*>(here) = pack;
    }
  }
}

/// The fragments of 16 rows of queries in shared memory, or of what they are multiplied by -1.
template <int most, class T>
__device__ __forceinline__ void load_query(Query<most, T>& query, const T* rows, bool negative) {
  const std::uint32_t sign = !negative ? 0 : sizeof(T) == 2 ? 0x80008000u : 0x80000000u;
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int d = 0; d < most / (2 * chunk<T>); ++d) {
    const int column = (2 * d + lane / 16) * chunk<T>;
    ptx::load_matrices(query[d], ptx::shared_address(rows + lane % 16 * pitch<most, T> + column));
#pragma unroll
    for (int i = 0; i < 4; ++i) query[d][i] ^= sign;
  }
}

/// The keys of 16 positions, to go with a fragment of queries: the first two words are those of the first 8.
template <int most, class T>
__device__ __forceinline__ void load_keys(std::uint32_t (&b)[4], const T* keys, int d) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = lane / 16 * 8 + lane % 8, column = (2 * d + lane / 8 % 2) * chunk<T>;
  ptx::load_matrices(b, ptx::shared_address(keys + row * pitch<most, T> + column));
}

template <class T>
__device__ __forceinline__ std::uint32_t packed(float low, float high) {
  const Pack<T, 2> pack = {from_f32<T>(low), from_f32<T>(high)};
  return *reinterpret_cast<const std::uint32_t*>(&pack);
}

/// Stores two neighbouring elements.
template <class T>
__device__ __forceinline__ void store_pair(T* to, float low, float high) {
  if constexpr (sizeof(T) == sizeof(float)) {
    *reinterpret_cast<float2*>(to) = {low, high};
  } else {
    *reinterpret_cast<std::uint32_t*>(to) = packed<T>(low, high);
  }
}

/// 2^x within 2 ulp; what would be a subnormal number is 0.
__device__ __forceinline__ float exp2_of(float x) {
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}

/// Combines the values of the four threads that share a row.
template <class Combine>
__device__ __forceinline__ float over_row(float value, Combine combine) {
  value = combine(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return combine(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

/// scores = queries * keys' of the first `sixteens` times 16 positions.
template <int most, int eights, class T>
requires(sizeof(T) == 2) __device__ __forceinline__
    void score(Scores<eights>& scores, const Query<most, T>& query, const T* keys, int sixteens) {
#pragma unroll
  for (int i = 0; i < eights / 2; ++i) {
    if (i >= sixteens) break;
#pragma unroll
    for (int d = 0; d < most / 16; ++d) {
      std::uint32_t b[4];
      load_keys<most>(b, keys + 16 * i * pitch<most, T>, d);
      ptx::mma<T>(scores[2 * i], query[d], {b[0], b[1]}, scores[2 * i]);
      ptx::mma<T>(scores[2 * i + 1], query[d], {b[2], b[3]}, scores[2 * i + 1]);
    }
  }
}

/// outputs += weights * values of those positions, as tensor cores do it: a weight of 0 makes a NaN of what is not
/// finite.
template <int most, int eights, class T>
requires(sizeof(T) == 2) __device__ __forceinline__
    void multiply(Outputs<most>& outputs, const Scores<eights>& weights, const T* values, int sixteens) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < eights / 2; ++i) {
    if (i >= sixteens) break;
    const auto &left = weights[2 * i], &right = weights[2 * i + 1];
    const std::uint32_t a[4] = {packed<T>(left[0], left[1]), packed<T>(left[2], left[3]), packed<T>(right[0], right[1]),
                                packed<T>(right[2], right[3])};
#pragma unroll
    for (int j = 0; j < most / 16; ++j) {
      std::uint32_t b[4];
      const int row = 16 * i + lane % 16, column = 16 * j + lane / 16 * 8;
      ptx::load_transposed(b, ptx::shared_address(values + row * pitch<most, T> + column));
      ptx::mma<T>(outputs[2 * j], a, {b[0], b[1]}, outputs[2 * j]);
      ptx::mma<T>(outputs[2 * j + 1], a, {b[2], b[3]}, outputs[2 * j + 1]);
    }
  }
}

/// The same by multiply-adds, of 16 rows and the positions that each of a thread's two sees: [0, seen). Slow, and
/// rarely needed.
template <int most, int eights, class T>
__device__ inline void multiply_seen(Outputs<most>& outputs, const Scores<eights>& weights, const T* values,
                                     const int (&seen)[2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < eights; ++i) {
#pragma unroll 1
    for (int t = 0; t < 4; ++t) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float low = __shfl_sync(0xffffffffu, weights[i][h], lane / 4 * 4 + t);
        const float high = __shfl_sync(0xffffffffu, weights[i][2 + h], lane / 4 * 4 + t);
        const int position = 8 * i + 2 * t + h;
        const T* const row = values + position * pitch<most, T> + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < most / 8; ++j) {
          const float x = to_f32(row[8 * j]), y = to_f32(row[8 * j + 1]);
          if (position < seen[0])
            outputs[j][0] = fmaf(low, x, outputs[j][0]), outputs[j][1] = fmaf(low, y, outputs[j][1]);
          if (position < seen[1])
            outputs[j][2] = fmaf(high, x, outputs[j][2]), outputs[j][3] = fmaf(high, y, outputs[j][3]);
        }
      }
    }
  }
}

/// Whether some value of a tile is not finite; for all threads of the block, or of the warp.
template <int most, int threads, int positions, class T>
__device__ inline bool not_finite(const T* values) {
  constexpr int chunks = most / chunk<T>;
  float found = 0;  // or NaN
  for (int i = static_cast<int>(threadIdx.x) % threads; i < positions * chunks; i += threads) {
    const auto pack = *reinterpret_cast<const Pack<T>*>(values + i / chunks * pitch<most, T> + i % chunks * chunk<T>);
#pragma unroll
    for (int j = 0; j < chunk<T>; ++j) found = fmaf(to_f32(pack.values[j]), 0.0f, found);
  }
  return threads == 32 ? __any_sync(0xffffffffu, isnan(found)) != 0 : __syncthreads_or(isnan(found)) != 0;
}

}  // namespace lamina::cuda
