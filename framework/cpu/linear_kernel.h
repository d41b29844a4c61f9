#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/simd.h"

namespace lamina::cpu {

/// Outputs [first, last) of some rows of a fully connected layer.
struct LinearJob {
  const float* input = nullptr;  // [rows, in]
  const void* weight = nullptr;  // [out, in], of the kernel's type
  const float* bias = nullptr;   // [out], or null
  float* output = nullptr;       // [rows, out]
  std::int64_t rows = 0, in = 0, out = 0;
  std::int64_t first = 0, last = 0;
  bool relu = false;
};

/// Dot products, compiled for one instruction set; the arithmetic is fp32 whatever the weights are stored as.
struct LinearKernel {
  using Run = void (*)(const LinearJob& job);
  InstructionSet set;
  int rows;  // up to so many, the weights stream past once
  Run f32, bf16, f16;
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const LinearKernel> linear_kernels();

}  // namespace lamina::cpu
