// The multiply-adds of one tile of a product: P rows times V vectors of columns, written once and compiled for each
// instruction set by Highway. P * V accumulators, V vectors of b and one broadcast value of a fill the registers.
//
// Source: Goto, van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.

#include "lamina/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/product/matmul_tile.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lamina/cpu/product/matmul_tile.h"

HWY_BEFORE_NAMESPACE();
namespace lamina::cpu {
namespace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag()));

// As the convolutions' tile.
#if HWY_TARGET == HWY_AVX3
constexpr int vectors = 2, most_rows = 14;
#elif HWY_TARGET == HWY_NEON
constexpr int vectors = 4, most_rows = 6;
#else
constexpr int vectors = 2, most_rows = 6;
#endif
constexpr int width = vectors * lanes;

template <int P>
HWY_NOINLINE void multiply_rows(const MatMulTile& t) {
  const Tag d;
  Vector sum[P][vectors];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[p][v] = hn::Zero(d);
  }
  const float* a = t.a;
  const float* b = t.b;
  const std::int64_t b_stride = t.b_stride;
  for (int k = t.terms; k > 0; --k, a += most_rows, b += b_stride) {
    Vector value[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) value[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      const Vector row = hn::Set(d, a[p]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[p][v] = hn::MulAdd(row, value[v], sum[p][v]);
    }
  }
  const Vector alpha = hn::Set(d, t.alpha);
  if (t.columns == width) {
    float* c = t.c;
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p, c += t.c_stride) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        Vector y = sum[p][v];
        if (t.add) y = hn::Add(y, hn::LoadU(d, c + v * lanes));
        hn::StoreU(hn::Mul(y, alpha), d, c + v * lanes);
      }
    }
    return;
  }
  HWY_ALIGN float rest[P * width];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) hn::Store(sum[p][v], d, rest + p * width + v * lanes);
  }
  for (int p = 0; p < P; ++p) {
    float* const c = t.c + p * t.c_stride;
    for (int i = 0; i < t.columns; ++i) c[i] = t.alpha * (t.add ? rest[p * width + i] + c[i] : rest[p * width + i]);
  }
}

template <int... index>
constexpr std::array<void (*)(const MatMulTile&), sizeof...(index)> tiles(std::integer_sequence<int, index...>) {
  return {multiply_rows<index + 1>...};
}

void multiply(const MatMulTile& tile) {
  static constexpr auto by_rows = tiles(std::make_integer_sequence<int, most_rows>());
  by_rows[static_cast<std::size_t>(tile.rows - 1)](tile);
}

constexpr MatMulKernel kernel = {LAMINA_SIMD_SET, most_rows, width, multiply};

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace lamina::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lamina::cpu {

std::span<const MatMulKernel> matmul_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

void pack_rows(const MatMulKernel& kernel, const float* a, std::int64_t row_stride, std::int64_t term_stride, int rows,
               int terms, float* packed) {
  for (int t = 0; t < terms; ++t, packed += kernel.rows) {
    const float* const from = a + t * term_stride;
    for (int r = 0; r < rows; ++r) packed[r] = from[r * row_stride];
    std::fill(packed + rows, packed + kernel.rows, 0.0f);
  }
}

void pack_columns(const MatMulKernel& kernel, const float* b, std::int64_t term_stride, std::int64_t column_stride,
                  std::int64_t terms, int columns, float* packed) {
  const int width = kernel.columns;
  if (column_stride == 1) {
    for (std::int64_t t = 0; t < terms; ++t, packed += width) {
      std::copy_n(b + t * term_stride, columns, packed);
      std::fill(packed + columns, packed + width, 0.0f);
    }
    return;
  }
  // Columns lie apart: so many terms at a time that what is written to stays in the L1 cache.
  constexpr std::int64_t block = 64;
  for (std::int64_t begin = 0; begin < terms; begin += block) {
    const std::int64_t end = std::min(terms, begin + block);
    for (int c = 0; c < columns; ++c) {
      const float* const from = b + c * column_stride;
      for (std::int64_t t = begin; t < end; ++t) packed[t * width + c] = from[t * term_stride];
    }
    for (std::int64_t t = begin; t < end; ++t) std::fill(packed + t * width + columns, packed + (t + 1) * width, 0.0f);
  }
}

}  // namespace lamina::cpu
#endif
