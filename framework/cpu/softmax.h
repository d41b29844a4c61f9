#pragma once

#include <cstdint>
#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/problems.h"

namespace lamina::cpu {

/// Of columns of [extent, pitch], compiled for one instruction set: of the first `count` of a pitch or, where the pitch
/// is 1, of so many such, one after the other.
struct SoftmaxKernel {
  InstructionSet set;
  void (*run)(SoftmaxKind kind, const float* x, float* y, std::int64_t extent, std::int64_t pitch, std::int64_t count);
};

/// Those that this machine runs, the fastest first.
std::span<const SoftmaxKernel> softmax_kernels();

/// Along `extent`: exp(input) / the sum of exp(input), or its logarithm, neither of which overflows.
void softmax(const SoftmaxKernel& kernel, SoftmaxKind kind,
             const float* input,  // [outer, extent, inner]
             float* output,       // [outer, extent, inner]
             std::int64_t outer, std::int64_t extent, std::int64_t inner, ThreadPool& pool);

}  // namespace lamina::cpu
