#pragma once

#include <span>

#include "lamina/cpu/conv2d/row_epilogue.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// Norms of f32 or bf16, compiled for one instruction set.
struct NormRowsKernel {
  /// Where results go, and what is done to them on their way.
  struct End {
    void* output;
    const void* residual = nullptr;  // at the same place, if the epilogue adds it
    const RowEpilogue* epilogue = nullptr;
  };
  struct Rows {
    const void* input;       // [rows, length]
    const float* scale;      // [channels], or null
    const float* shift;      // [channels], or null
    End end;                 // [rows, length]
    std::int64_t first = 0;  // of the rows: which decides where channels begin
    std::int64_t rows, length;
    std::int64_t inner = 1, channels;  // as NormProblem has them
    float eps;
    NormKind kind;
  };
  /// Pixels of one image that is stored channels last.
  struct Pixels {
    const void* input;  // [count, channels]
    std::int64_t count, channels;
  };
  /// Of each channel: the first pixel's value, and what the others are more than that, summed up and squared.
  struct Sums {
    double *first, *differences, *squares;  // [channels] each
  };
  /// y = ((x - mean) - rest) factor + shift, with numbers for each channel.
  struct Factors {
    const float *mean, *rest, *factor, *shift;
  };
  InstructionSet set;
  void (*f32)(const Rows& rows);
  void (*bf16)(const Rows& rows);
  void (*sums_of_f32)(const Pixels& pixels, const Sums& sums);
  void (*sums_of_bf16)(const Pixels& pixels, const Sums& sums);
  void (*scaled_f32)(const Pixels& pixels, const Factors& factors, const End& end);
  void (*scaled_bf16)(const Pixels& pixels, const Factors& factors, const End& end);
};

/// Those that this machine runs, the fastest first; the last one needs no vectors.
std::span<const NormRowsKernel> norm_rows_kernels();

}  // namespace lamina::cpu
