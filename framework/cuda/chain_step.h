#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "lamina/kernel/pointwise.h"

/// Chains of functions as kernels are given them; pointwise_functions.cuh has the functions.
namespace lamina::cuda {

/// A step of a chain with numbers of the type that is computed in.
template <class T>
struct ChainStep {
  Pointwise function = Pointwise::identity;
  std::int8_t operand = -1, second = -1;
  T a{}, b{};
};

/// A number of a step as the type that is computed in; cast as PointwiseProblem says.
template <class T>
T number_as(double number) {
  if constexpr (std::is_integral_v<T>) {
    if (number != number) return 0;
    if (number >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    if (number <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  }
  return static_cast<T>(number);
}

template <class T>
ChainStep<T> step_as(const PointwiseStep& step) {
  return {step.function, static_cast<std::int8_t>(step.operand), static_cast<std::int8_t>(step.second),
          number_as<T>(step.a), number_as<T>(step.b)};
}

/// Whether apply_common knows it.
__host__ __device__ constexpr bool is_common(Pointwise function) {
  switch (function) {
    case Pointwise::relu:
    case Pointwise::sigmoid:
    case Pointwise::silu:
    case Pointwise::hard_swish:
    case Pointwise::hard_sigmoid:
    case Pointwise::tanh:
    case Pointwise::gelu:
    case Pointwise::gelu_tanh:
    case Pointwise::mish:
    case Pointwise::elu:
    case Pointwise::add:
    case Pointwise::sub:
    case Pointwise::mul:
    case Pointwise::min:
    case Pointwise::max:
    case Pointwise::prelu:
    case Pointwise::clip: return true;
    default: return false;
  }
}

}  // namespace lamina::cuda
