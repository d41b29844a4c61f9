#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/simd.h"

/// The register tile of a product of matrices: R rows times C columns stay in registers while it runs through the
/// terms. See conv2d/blocked.h, whose tile is the same with rows of an image for rows of a matrix.
namespace lamina::cpu {

struct MatMulTile {
  /// The longest chain of multiply-adds: longer ones drift on flat data, beyond the contract
  /// (docs/inside/precision.md).
  static constexpr int chain = 128;

  const float* a = nullptr;   // [terms, R], as pack_rows() writes it
  const float* b = nullptr;   // [terms, C], rows b_stride apart
  float* c = nullptr;         // [rows, columns], rows c_stride apart
  std::int64_t b_stride = 0;  // floats
  std::int64_t c_stride = 0;
  int terms = 0;              // at most `chain`; 0 is allowed
  int rows = 0, columns = 0;  // at most R and C; b has C columns whatever `columns` is
  bool add = false;           // to what c holds
  float alpha = 1;            // times all of it
};

/// The tile compiled for one instruction set.
struct MatMulKernel {
  InstructionSet set;
  int rows, columns;  // R and C
  void (*multiply)(const MatMulTile& tile);
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const MatMulKernel> matmul_kernels();

/// Writes [terms, R]: `rows` <= R of a, whose element (r, t) is at r * row_stride + t * term_stride; zeros beyond.
void pack_rows(const MatMulKernel& kernel, const float* a, std::int64_t row_stride, std::int64_t term_stride, int rows,
               int terms, float* packed);

/// Writes [terms, C]: `columns` <= C of b, likewise.
void pack_columns(const MatMulKernel& kernel, const float* b, std::int64_t term_stride, std::int64_t column_stride,
                  std::int64_t terms, int columns, float* packed);

}  // namespace lamina::cpu
