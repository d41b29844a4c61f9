#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "lamina/cpu/simd.h"
#include "lamina/kernel/pointwise.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// The numbers of one step of a chain for `count` elements, each from its own array; those that the function does not
/// have are any that may be read.
template <class T>
struct StepOperands {
  const T* value;
  const T* x;
  const T* y;
};

/// output[i] = the function of element i of each operand; the output overlaps no operand. Compiled for one instruction
/// set.
struct ApplyKernel {
  InstructionSet set;
  void (*floats)(Pointwise function, const StepOperands<float>& operands, float* output, std::int64_t count);
  void (*doubles)(Pointwise function, const StepOperands<double>& operands, double* output, std::int64_t count);
  /// What blocks.h's load and store do with 16 bits; those of f16 may be null.
  void (*widen)(const bfloat16* from, float* to, std::int64_t count);
  void (*narrow)(const float* from, bfloat16* to, std::int64_t count);
  void (*widen_half)(const half* from, float* to, std::int64_t count);
  void (*narrow_half)(const float* from, half* to, std::int64_t count);
};

/// Those that this machine runs, the fastest first; the last one is plain C++.
std::span<const ApplyKernel> apply_kernels();

/// The same of whole numbers, std::int64_t, std::uint64_t or std::uint8_t.
template <class T>
void apply_whole(Pointwise function, const StepOperands<T>& operands, T* output, std::int64_t count);

/// The same of any of the five types.
template <class T>
void apply(const ApplyKernel& kernel, Pointwise function, const StepOperands<T>& operands, T* output,
           std::int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    kernel.floats(function, operands, output, count);
  } else if constexpr (std::is_same_v<T, double>) {
    kernel.doubles(function, operands, output, count);
  } else {
    apply_whole(function, operands, output, count);
  }
}

}  // namespace lamina::cpu
