// c = alpha * a b of f16 or bf16 on tensor cores by mma.sync, with fp32 accumulation.
//
// A block owns a tile of BM x BN outputs, a warp WM x WN of them in registers. Slabs of 32 terms of a and b lie in
// shared memory as they do in global memory, terms or lines innermost, in rows that are 16 bytes longer, so that the 8
// rows of a matrix that ldmatrix reads fall into different banks; ldmatrix transposes what needs it. Three stages of
// slabs are filled by cp.async, 16 bytes at a time, where all rows begin on 16 bytes; else element by element.
// Shared memory: at most 61,440 bytes, dynamic.
//
// Preconditions: none; what lies outside of the matrices reads as 0.
// Source: PTX ISA, "mma.m16n8k16", "ldmatrix"; the shape of such kernels is that of CUTLASS' SM80 GEMM.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/product/matmul_batch.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/shared.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::MatMulExtents;

constexpr int depth = 32, stages = 3, chunk = 8;  // elements of 16 bytes

/// `depth` terms of `Lines` rows of a, or columns of b, in shared memory: [Lines, depth], or [depth, Lines] if
/// `across`.
template <int Lines, bool across>
struct Slab {
  static constexpr int outer = across ? depth : Lines, inner = across ? Lines : depth;
  static constexpr int pitch = inner + chunk;
  static constexpr int elements = outer * pitch;

  /// From `from`, at the slab's first line and term; so many lines and terms are there.
  template <int threads, bool aligned, class T>
  __device__ static void fill(T* slab, const T* from, std::int64_t step, std::int64_t lines, std::int64_t terms) {
    constexpr int chunks = inner / chunk;
    static_assert(outer * chunks % threads == 0, "every thread has as many");
    const std::int64_t rows = across ? terms : lines, columns = across ? lines : terms;
#pragma unroll
    for (int i = 0; i < outer * chunks / threads; ++i) {
      const int place = static_cast<int>(threadIdx.x) + i * threads;
      const int row = place / chunks, column = place % chunks * chunk;
      T* const to = slab + row * pitch + column;
      if constexpr (aligned) {
        const bool there = row < rows && column < columns;
        ptx::copy_async_once(ptx::shared_address(to), there ? from + row * step + column : from, there);
      } else {
        Pack<T> pack;
#pragma unroll
        for (int j = 0; j < chunk; ++j) {
          pack.values[j] = row < rows && column + j < columns ? from[row * step + column + j] : T(0.0f);
        }
        *reinterpret_cast<Pack<T>*>(to) = pack;
      }
    }
  }

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

template <int BM_, int BN_, int WM_, int WN_>
struct Tile {
  static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_, threads = BM / WM * (BN / WN) * 32;
  static_assert(WM % 16 == 0 && WN % 16 == 0, "fragments of 16 x 16");
};
using Large = Tile<128, 128, 64, 32>;
using Small = Tile<64, 64, 32, 32>;

template <class Tile, bool transpose_a, bool transpose_b, bool aligned, class T>
__global__ void __launch_bounds__(Tile::threads)
    matmul_mma_kernel(const T* __restrict__ a_all,  // [batches, m, k], or [batches, k, m]
                      const T* __restrict__ b_all,  // [batches, k, n], or [batches, n, k]
                      T* __restrict__ c_all,        // [batches, m, n]
                      const __grid_constant__ MatMulExtents e) {
#if __CUDA_ARCH__ >= 800
  constexpr int BM = Tile::BM, BN = Tile::BN, WM = Tile::WM, WN = Tile::WN, threads = Tile::threads;
  using SlabA = Slab<BM, transpose_a>;
  using SlabB = Slab<BN, !transpose_b>;
  extern __shared__ __align__(16) unsigned char memory[];
  T* const a_shared = reinterpret_cast<T*>(memory);
  T* const b_shared = a_shared + stages * SlabA::elements;
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t tiles_across = (e.n + BN - 1) / BN;
  const std::int64_t row = blockIdx.x / tiles_across * BM, column = blockIdx.x % tiles_across * BN;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int warp_row = warp / (BN / WN) * WM, warp_column = warp % (BN / WN) * WN;
  const std::int64_t a_step = transpose_a ? e.a_term : e.a_row, b_step = transpose_b ? e.b_column : e.b_term;
  for (std::int64_t batch = blockIdx.y; batch < e.batches; batch += gridDim.y) {
    const auto at = operands(e, batch);
    const T* const a = a_all + at.a + row * e.a_row;
    const T* const b = b_all + at.b + column * e.b_column;
    const std::int64_t slabs = (e.k + depth - 1) / depth;
    const auto fill = [&](std::int64_t slab) {
      if (slab < slabs) {
        const std::int64_t k = slab * depth;
        const int stage = static_cast<int>(slab % stages);
        SlabA::template fill<threads, aligned>(a_shared + stage * SlabA::elements, a + k * e.a_term, a_step, e.m - row,
                                               e.k - k);
        SlabB::template fill<threads, aligned>(b_shared + stage * SlabB::elements, b + k * e.b_term, b_step,
                                               e.n - column, e.k - k);
      }
      ptx::copy_async_commit();
    };
    float sum[WM / 16][WN / 8][4] = {};
    __syncthreads();  // everybody has read the last batch's slabs
    for (int s = 0; s < stages - 1; ++s) fill(s);
    for (std::int64_t slab = 0; slab < slabs; ++slab) {
      ptx::copy_async_wait<stages - 2>();
      __syncthreads();  // this slab is there for all, and the one before it has been read by all
      fill(slab + stages - 1);
      const T* const a_slab = a_shared + slab % stages * SlabA::elements;
      const T* const b_slab = b_shared + slab % stages * SlabB::elements;
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
    const auto alpha = static_cast<float>(e.alpha);
    T* const c = c_all + batch * e.m * e.n;
#pragma unroll
    for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const std::int64_t r = row + warp_row + 16 * i + 8 * h + lane / 4;
          const std::int64_t s = column + warp_column + 8 * j + lane % 4 * 2;
          const T low = from_f32<T>(alpha * sum[i][j][2 * h]), high = from_f32<T>(alpha * sum[i][j][2 * h + 1]);
          if (r >= e.m || s >= e.n) continue;
          T* const to = c + r * e.n + s;
          if (aligned && e.n % 2 == 0) {
            *reinterpret_cast<Pack<T, 2>*>(to) = {low, high};
          } else {
            to[0] = low;
            if (s + 1 < e.n) to[1] = high;
          }
        }
      }
    }
  }
#endif
}

template <class Tile, bool transpose_a, bool transpose_b, bool aligned, class T>
void launch(int device, const MatMulExtents& e, const T* a, const T* b, T* c, Stream stream) {
  const auto kernel = matmul_mma_kernel<Tile, transpose_a, transpose_b, aligned, T>;
  constexpr int bytes = stages * static_cast<int>(sizeof(T)) *
                        (Slab<Tile::BM, transpose_a>::elements + Slab<Tile::BN, !transpose_b>::elements);
  reserve_shared_memory(device, reinterpret_cast<const void*>(kernel), bytes);
  const std::int64_t tiles =
      detail::ceil_div<std::int64_t>(e.m, Tile::BM) * detail::ceil_div<std::int64_t>(e.n, Tile::BN);
  const dim3 grid(grid_for(tiles, 1), static_cast<unsigned>(std::min<std::int64_t>(e.batches, 65535)));
  launch_kernel(kernel, {.grid = grid, .block = dim3(Tile::threads), .shared_bytes = bytes}, stream, a, b, c, e);
}

template <class Tile, class T>
void dispatch(int device, bool aligned, const MatMulExtents& e, const T* a, const T* b, T* c, Stream stream) {
  const bool ta = e.a_row == 1 && e.a_term != 1, tb = e.b_term == 1 && e.b_column != 1;
  const auto run = [&]<bool x, bool y>(std::bool_constant<x>, std::bool_constant<y>) {
    aligned ? launch<Tile, x, y, true>(device, e, a, b, c, stream)
            : launch<Tile, x, y, false>(device, e, a, b, c, stream);
  };
  using std::false_type, std::true_type;
  if (ta) {
    tb ? run(true_type(), true_type()) : run(true_type(), false_type());
  } else {
    tb ? run(false_type(), true_type()) : run(false_type(), false_type());
  }
}

/// Whether every row of both operands, of every batch, begins on 16 bytes and is whole packs of them.
bool aligned(const MatMulExtents& e, const void* a, const void* b, const void* c) {
  const bool ta = e.a_row == 1 && e.a_term != 1, tb = e.b_term == 1 && e.b_column != 1;
  bool result = aligned_to_16(a) && aligned_to_16(b) && aligned_to_16(c);
  result = result && (ta ? e.m : e.k) % chunk == 0 && (ta ? e.a_term : e.a_row) % chunk == 0;
  result = result && (tb ? e.k : e.n) % chunk == 0 && (tb ? e.b_column : e.b_term) % chunk == 0;
  for (int d = 0; d < e.batch_rank; ++d) {
    result = result && e.a_strides[d] % chunk == 0 && e.b_strides[d] % chunk == 0;
  }
  return result;
}

}  // namespace

bool takes_matmul_mma(const MatMulProblem& problem, const Preparation& p) {
  return takes_matmul_any(problem, p) && size_of(p.input().format.dtype) == 2 && p.device.architecture >= 80;
}

std::unique_ptr<Operator> prepare_matmul_mma(const MatMulProblem& problem, const Preparation& p) {
  const MatMulExtents e = detail::matmul_extents(problem, p);
  const std::int64_t large =
      detail::ceil_div<std::int64_t>(e.m, Large::BM) * detail::ceil_div<std::int64_t>(e.n, Large::BN);
  const bool enough = e.m > Small::BM && large * e.batches >= p.device.multiprocessors;
  return make_on_device(index(p), "mma.sync",
                        [e, enough, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                          const auto run = [&]<class T>(T*) {
                            const T *a = elements<T>(inputs[0]), *b = elements<T>(inputs[1]);
                            T* c = elements<T>(outputs[0]);
                            const bool whole = aligned(e, a, b, c);
                            enough ? dispatch<Large>(device, whole, e, a, b, c, execution.stream)
                                   : dispatch<Small>(device, whole, e, a, b, c, execution.stream);
                          };
                          outputs[0].dtype() == DType::f16 ? run(static_cast<__half*>(nullptr))
                                                           : run(static_cast<__nv_bfloat16*>(nullptr));
                        });
}

}  // namespace lamina::cuda
