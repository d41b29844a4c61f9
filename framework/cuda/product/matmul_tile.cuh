#pragma once

// Products of matrices of f16 or bf16 on tensor cores by mma.sync, with fp32 accumulation, for kernels that differ in
// what becomes of a sum.
//
// A block owns a tile of BM x BN outputs, a warp WM x WN of them in registers. Slabs of 32 terms of a and b lie in
// shared memory as they do in global memory, terms or lines innermost, in rows that are 16 bytes longer, so that the 8
// rows of a matrix that ldmatrix reads fall into different banks; ldmatrix transposes what needs it. Some stages of
// slabs are filled by cp.async, of each operand as many bytes at a time as all its rows begin on: 16, 8 or 4; rows of
// an odd number of elements are loaded one by one. Shared memory: at most 61,440 bytes, dynamic.
//
// Preconditions: none; what lies outside of the matrices reads as 0.
// Source: PTX ISA, "mma.m16n8k16", "ldmatrix"; the shape of such kernels is that of CUTLASS' SM80 GEMM.

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <span>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/matmul_batch.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/shared.cuh"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::tiles {

using namespace tables;
using detail::MatMulExtents;

constexpr int depth = 32, chunk = 8;  // elements of 16 bytes

/// `depth` terms of `Lines` rows of a, or columns of b, in shared memory: [Lines, depth], or [depth, Lines] if
/// `across`.
template <int Lines, bool across>
struct Slab {
  static constexpr int outer = across ? depth : Lines, inner = across ? Lines : depth;
  static constexpr int pitch = inner + chunk;
  static constexpr int elements = outer * pitch;

  /// What one thread copies to slab after slab, `unit` bytes at a time; `whole`: those are 16.
  template <int threads, bool whole, class T>
  struct Source {
    const T* next;    ///< its first piece of the next slab
    int row, column;  ///< of that piece in the slab
    int lines;        ///< that are there

    __device__ Source(const T* from, int unit, std::int64_t step, std::int64_t lines_left)
        : lines(static_cast<int>(lines_left < Lines ? lines_left : Lines)) {
      const int elements = (whole ? 16 : unit) / static_cast<int>(sizeof(T)),
                pieces = __ffs(inner) - __ffs(elements);  // log2
      row = static_cast<int>(threadIdx.x) >> pieces;
      column = (static_cast<int>(threadIdx.x) & ((1 << pieces) - 1)) * elements;
      next = from + row * step + column;
    }

    /// So many terms of the slab are there; rows are `step` elements apart in memory, slabs `advance`.
    __device__ void fill(T* slab, int unit, std::int64_t step, std::int64_t advance, int terms) {
      const int rows = (column < (across ? lines : terms) ? (across ? terms : lines) : 0) - row;
      T* const first = slab + row * pitch + column;
      const auto by = [&]<int bytes>(std::integral_constant<int, bytes>) {
        constexpr int hop = threads * bytes / static_cast<int>(sizeof(T)) / inner, pieces = outer / hop;
        static_assert(pieces * hop == outer, "every thread has as many");
        constexpr int together = bytes == 16 ? pieces : 2;  // all at once took registers that blocks need
        const T* from = next;
#pragma unroll together
        for (int i = 0; i < pieces; ++i, from += hop * step) {
          T* const to = first + i * hop * pitch;
          const bool there = i * hop < rows;
          if constexpr (bytes == 16) {
            ptx::copy_async_once(ptx::shared_address(to), from, there);
          } else if constexpr (bytes > 2) {
            ptx::copy_async<bytes>(ptx::shared_address(to), from, there);
          } else {
            *to = there ? *from : T(0.0f);
          }
        }
      };
      switch (whole ? 16 : unit) {  // every thread's is the same
        case 16: by(std::integral_constant<int, 16>()); break;
        case 8: by(std::integral_constant<int, 8>()); break;
        case 4: by(std::integral_constant<int, 4>()); break;
        default: by(std::integral_constant<int, 2>());
      }
      next += advance;
    }
  };

  /// The four 8 x 8 matrices at line `line` and term `term`: in the order of (lines, terms) (0, 0), (8, 0), (0, 8),
  /// (8, 8), or, if `terms_first`, (0, 0), (0, 8), (8, 0), (8, 8).
  template <bool terms_first, class T>
  __device__ static void read(std::uint32_t (&value)[4], const T* slab, int line, int term) {
    const int lane = static_cast<int>(threadIdx.x % 32), row = lane % 8, second = lane / 8 % 2, third = lane / 16;
    const int lines = line + 8 * (terms_first ? third : second), terms = term + 8 * (terms_first ? second : third);
    if constexpr (across) {
      ptx::load_transposed(value, ptx::shared_address(slab + (terms + row) * pitch + lines));
    } else {
      ptx::load_matrices(value, ptx::shared_address(slab + (lines + row) * pitch + terms));
    }
  }
};

template <int BM_, int BN_, int WM_, int WN_, int stages_>
struct Tile {
  static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_, stages = stages_, threads = BM / WM * (BN / WN) * 32;
  static constexpr int resident = 512 / threads;  // blocks whose registers a multiprocessor has
  static_assert(WM % 16 == 0 && WN % 16 == 0, "fragments of 16 x 16");
};
using Large = Tile<128, 128, 64, 32, 3>;
using Small = Tile<64, 64, 32, 32, 5>;

/// So many bytes of each operand's rows, and of c's, are there at a time.
struct Units {
  int a = 2, b = 2, c = 2;
};

/// `end` takes neighbouring pairs of sums of row r to what is stored there: end.finish<T>(values, end.of_row(r), at,
/// columns), where values[2 p + q] is c's element at + 8 p + q, if 8 p + q < columns. What it has of a row is asked for
/// before the products, which do not wait for memory.
/// `whole`: all units are 16 bytes.
template <class Tile, bool transpose_a, bool transpose_b, bool whole, class T, class End>
__global__ void __launch_bounds__(Tile::threads, Tile::resident)
    matmul_mma_kernel(const T* __restrict__ a_all,  // [batches, m, k], or [batches, k, m]
                      const T* __restrict__ b_all,  // [batches, k, n], or [batches, n, k]
                      T* __restrict__ c,            // [batches, m, n]
                      const __grid_constant__ MatMulExtents e, Units units, const __grid_constant__ End end) {
#if __CUDA_ARCH__ >= 800
  constexpr int BM = Tile::BM, BN = Tile::BN, WM = Tile::WM, WN = Tile::WN, threads = Tile::threads,
                stages = Tile::stages;
  using SlabA = Slab<BM, transpose_a>;
  using SlabB = Slab<BN, !transpose_b>;
  extern __shared__ __align__(16) unsigned char memory[];
  T* const a_shared = reinterpret_cast<T*>(memory);
  T* const b_shared = a_shared + stages * SlabA::elements;
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t tiles_across = (e.n + BN - 1) / BN, tile_row = divided(blockIdx.x, tiles_across);
  const std::int64_t row = tile_row * BM, column = (blockIdx.x - tile_row * tiles_across) * BN;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warp_row = warp / (BN / WN) * WM, warp_column = warp % (BN / WN) * WN;
  const std::int64_t a_step = transpose_a ? e.a_term : e.a_row, b_step = transpose_b ? e.b_column : e.b_term;
  for (std::int64_t batch = blockIdx.y; batch < e.batches; batch += gridDim.y) {
    const auto at = operands(e, batch);
    const T* const a = a_all + at.a + row * e.a_row;
    const T* const b = b_all + at.b + column * e.b_column;
    const int slabs = static_cast<int>((e.k + depth - 1) / depth);
    const int tail = static_cast<int>(e.k - std::int64_t{slabs - 1} * depth);  // terms of the last slab
    typename SlabA::template Source<threads, whole, T> from_a(a, units.a, a_step, e.m - row);
    typename SlabB::template Source<threads, whole, T> from_b(b, units.b, b_step, e.n - column);
    int filled = 0, filling = 0, reading = 0;  // slabs, and stages
    const auto fill = [&] {
      if (filled < slabs) {
        const int terms = ++filled == slabs ? tail : depth;
        from_a.fill(a_shared + filling * SlabA::elements, units.a, a_step, depth * e.a_term, terms);
        from_b.fill(b_shared + filling * SlabB::elements, units.b, b_step, depth * e.b_term, terms);
        filling = filling == stages - 1 ? 0 : filling + 1;
      }
      ptx::copy_async_commit();
    };
    float of_row[WM / 16][2];
#pragma unroll
    for (int h = 0; h < WM / 8; ++h) {
      const std::int64_t r = row + warp_row + 8 * h + lane / 4;
      of_row[h / 2][h % 2] = r < e.m ? end.of_row(r) : 0.0f;
    }
    float sum[WM / 16][WN / 8][4] = {};
    __syncthreads();  // everybody has read the last batch's slabs
    for (int s = 0; s < stages - 1; ++s) fill();
    for (int slab = 0; slab < slabs; ++slab) {
      ptx::copy_async_wait<stages - 2>();
      __syncthreads();  // this slab is there for all, and the one before it has been read by all
      fill();
      const T* const a_slab = a_shared + reading * SlabA::elements;
      const T* const b_slab = b_shared + reading * SlabB::elements;
      reading = reading == stages - 1 ? 0 : reading + 1;
#pragma unroll
      for (int term = 0; term < depth; term += 16) {
        std::uint32_t x[WM / 16][4], y[WN / 16][4];
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) SlabA::template read<false>(x[i], a_slab, warp_row + 16 * i, term);
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) SlabB::template read<true>(y[j], b_slab, warp_column + 16 * j, term);
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
          for (int j = 0; j < WN / 8; ++j) {
            const std::uint32_t fragment[2] = {y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]};
            ptx::mma<T>(sum[i][j], x[i], fragment, sum[i][j]);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const std::int64_t r = row + warp_row + 16 * i + 8 * h + lane / 4;
        const std::int64_t s = column + warp_column + lane % 4 * 2;
        if (r >= e.m || s >= e.n) continue;
        const std::int64_t first = (batch * e.m + r) * e.n + s, columns = e.n - s;
        float values[WN / 4];
#pragma unroll
        for (int v = 0; v < WN / 4; ++v) values[v] = sum[i][v / 2][2 * h + v % 2];
        end.template finish<T>(values, of_row[i][h], first, columns);
#pragma unroll
        for (int p = 0; p < WN / 8; ++p) {
          const T low = from_f32<T>(values[2 * p]), high = from_f32<T>(values[2 * p + 1]);
          T* const to = c + first + 8 * p;
          if (8 * p >= columns) continue;
          if (whole || units.c >= 4) {
            *reinterpret_cast<Pack<T, 2>*>(to) = {low, high};
          } else {
            to[0] = low;
            if (8 * p + 1 < columns) to[1] = high;
          }
        }
      }
    }
  }
#endif
}

template <class Tile, bool transpose_a, bool transpose_b, bool whole, class T, class End>
void launch(int device, const MatMulExtents& e, const Units& units, const T* a, const T* b, T* c, const End& end,
            Stream stream) {
  const auto kernel = matmul_mma_kernel<Tile, transpose_a, transpose_b, whole, T, End>;
  constexpr int bytes = Tile::stages * static_cast<int>(sizeof(T)) *
                        (Slab<Tile::BM, transpose_a>::elements + Slab<Tile::BN, !transpose_b>::elements);
  reserve_shared_memory(device, reinterpret_cast<const void*>(kernel), bytes);
  const std::int64_t tiles =
      detail::ceil_div<std::int64_t>(e.m, Tile::BM) * detail::ceil_div<std::int64_t>(e.n, Tile::BN);
  const dim3 grid(grid_for(tiles, 1), static_cast<unsigned>(std::min<std::int64_t>(e.batches, 65535)));
  launch_kernel(kernel, {.grid = grid, .block = dim3(Tile::threads), .shared_bytes = bytes}, stream, a, b, c, e, units,
                end);
}

inline bool turns_a(const MatMulExtents& e) { return e.a_row == 1 && e.a_term != 1; }
inline bool turns_b(const MatMulExtents& e) { return e.b_term == 1 && e.b_column != 1; }

/// The most bytes, of 16 bits, that the address, the rows' length and every step are multiples of.
inline int unit_of(const void* address, std::initializer_list<std::int64_t> counts,
                   std::span<const std::int64_t> strides) {
  auto bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address)) | 16;
  for (const std::int64_t count : counts) bits |= static_cast<std::uint64_t>(count) * 2;
  for (const std::int64_t stride : strides) bits |= static_cast<std::uint64_t>(stride) * 2;
  return 1 << std::countr_zero(bits);
}

inline Units units_of(const MatMulExtents& e, const void* a, const void* b, const void* c) {
  const auto rank = static_cast<std::size_t>(e.batch_rank);
  const bool ta = turns_a(e), tb = turns_b(e);
  return {unit_of(a, {ta ? e.m : e.k, ta ? e.a_term : e.a_row}, {e.a_strides, rank}),
          unit_of(b, {tb ? e.k : e.n, tb ? e.b_column : e.b_term}, {e.b_strides, rank}), unit_of(c, {e.n}, {})};
}

/// What a multiprocessor multiplies while all tiles are computed, those outside of the matrices and of the last round
/// included.
template <class Tile>
double rounds(const MatMulExtents& e, const DeviceDescription& device) {
  const auto tiles = static_cast<double>(detail::ceil_div<std::int64_t>(e.m, Tile::BM) *
                                         detail::ceil_div<std::int64_t>(e.n, Tile::BN) * e.batches);
  return std::ceil(tiles / (device.multiprocessors * Tile::resident)) * Tile::resident * Tile::BM * Tile::BN;
}

/// Whether tiles of `Large` take no longer; the order of sums is the same.
inline bool large_pays(const MatMulExtents& e, const DeviceDescription& device) {
  return rounds<Large>(e, device) <= rounds<Small>(e, device);
}

}  // namespace lamina::cuda::tiles
