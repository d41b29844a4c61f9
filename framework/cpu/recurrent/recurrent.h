#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/simd.h"
#include "lamina/kernel/rules/recurrent.h"

/// Steps of recurrent layers on a CPU.
namespace lamina::cpu {

/// A step of one image in one direction.
struct StepRow {
  const float* x = nullptr;  // [G * H]
  const float* h = nullptr;  // [H], before it, or its codes
  float scale = 1;           // of these
  const float* c = nullptr;  // [H], likewise, of an LSTM
  float* y = nullptr;        // h behind it; between a GRU's phases, z
  float* more = nullptr;     // [H]: c behind it; between a GRU's phases, r h
};

/// Compiled for one instruction set.
struct RecurrentKernel {
  static constexpr int most_rows = 4;  ///< of a step

  InstructionSet set;
  int lanes;  ///< units of a block
  /// Units of blocks [first, last) in one step of `rows`. `weights` are those by blocks, f32 or bf16. The bits of a row
  /// do not depend on the others. `from_last`: in that order, so that the next step begins with what the cache has yet.
  void (*step)(const RecurrentProblem& problem, int direction, int phase, const Tensor& weights,
               std::span<const StepRow> rows, std::int64_t first, std::int64_t last, bool from_last);
};

/// Those that this machine runs, the fastest first.
std::span<const RecurrentKernel> recurrent_kernels();

}  // namespace lamina::cpu
