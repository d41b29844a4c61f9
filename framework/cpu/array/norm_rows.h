#pragma once

#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// Layer norm of rows of f32 or bf16, compiled for one instruction set.
struct NormRowsKernel {
  struct Rows {
    const void* input;   // [rows, length]
    const float* scale;  // [length], or null
    const float* shift;  // [length], or null
    void* output;        // [rows, length]
    std::int64_t rows, length;
    float eps;
    bool centred;
  };
  using Run = void (*)(const Rows& rows);
  InstructionSet set;
  Run f32, bf16;
};

/// Those that this machine runs, the fastest first; the last one needs no vectors.
std::span<const NormRowsKernel> norm_rows_kernels();

/// Of a problem whose channels are the elements of a row. The output may be the input.
void norm_rows(const NormRowsKernel& kernel, const NormProblem& problem, const Tensor& input, Tensor& output,
               ThreadPool& pool);

}  // namespace lamina::cpu
