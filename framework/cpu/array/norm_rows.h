#pragma once

#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// Norms of rows of f32 or bf16, compiled for one instruction set.
struct NormRowsKernel {
  struct Rows {
    const void* input;       // [rows, length]
    const float* scale;      // [channels], or null
    const float* shift;      // [channels], or null
    void* output;            // [rows, length]
    std::int64_t first = 0;  // of the rows: which decides where channels begin
    std::int64_t rows, length;
    std::int64_t inner = 1, channels;  // as NormProblem has them
    float eps;
    bool centred;
  };
  using Run = void (*)(const Rows& rows);
  InstructionSet set;
  Run f32, bf16;
};

/// Those that this machine runs, the fastest first; the last one needs no vectors.
std::span<const NormRowsKernel> norm_rows_kernels();

/// The output may be the input.
void norm_rows(const NormRowsKernel& kernel, const NormProblem& problem, const Tensor& input, Tensor& output,
               ThreadPool& pool);

}  // namespace lamina::cpu
