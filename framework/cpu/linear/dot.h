#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/simd.h"

namespace lamina::cpu {

/// Outputs [first, last) of some rows of a fully connected layer.
struct LinearJob {
  static constexpr std::int64_t max_rows = 32;
  const float* input = nullptr;            // [rows / R, in / lanes, R, lanes], 64-byte aligned: as `pack` writes it
  const void* weight = nullptr;            // [out, in], of the kernel's type
  const float* bias = nullptr;             // [out], or null
  float* output = nullptr;                 // [rows, out]
  std::int64_t rows = 0, in = 0, out = 0;  // at most `max_rows`
  std::int64_t first = 0, last = 0;
  bool relu = false;
};

/// Dot products, compiled for one instruction set; the arithmetic is fp32 whatever the weights are stored as.
struct LinearKernel {
  using Run = void (*)(const LinearJob& job);
  InstructionSet set;
  int lanes;
  int rows;  // R, of a tile
  /// Puts vectors of `rows` <= R rows beside each other, the last ones filled up with zeros. Rows that lie a power of
  /// two apart, as they often do, would all fall into the same few lines of the L1 cache.
  void (*pack)(const float* input,  // [rows, in]
               std::int64_t rows, std::int64_t in, float* packed);
  Run f32, bf16, f16;
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const LinearKernel> linear_kernels();

}  // namespace lamina::cpu
