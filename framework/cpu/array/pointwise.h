#pragma once

#include <cstdint>

#include "lamina/kernel/pointwise.h"

namespace lamina::cpu {

/// The numbers of one step of a chain for `count` elements, each from its own array; those that the function does not
/// have are any that may be read.
template <class T>
struct StepOperands {
  const T* value;
  const T* x;
  const T* y;
};

/// output[i] = the function of element i of each operand, for T float, double, std::int64_t or std::uint64_t. The
/// output overlaps no operand.
template <class T>
void apply(Pointwise function, const StepOperands<T>& operands, T* output, std::int64_t count);

}  // namespace lamina::cpu
