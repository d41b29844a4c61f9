#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lamina/tensor/dtype.h"
#include "lamina/tensor/quantization.h"

/// Functions of one element of each operand, and chains of them.
namespace lamina {

/// value = f(value), f(value, x) or f(value, x, y): all of them, those of one operand first, then of two and three, as
/// f(name, operands, numbers, truth) by the members of PointwiseFunction. What each computes is in docs/inside/ops.md
/// and, to read, in cpu/array/pointwise.cpp.
// clang-format off
#define LAMINA_POINTWISE_FUNCTIONS(f) \
  f(relu, 1, all, false) f(sigmoid, 1, floats, false) f(tanh, 1, floats, false) f(exp, 1, floats, false)               \
  f(log, 1, floats, false) f(sqrt, 1, floats, false) f(rsqrt, 1, floats, false) f(reciprocal, 1, floats, false)        \
  f(abs, 1, all, false) f(neg, 1, all, false) f(sign, 1, all, false) f(erf, 1, floats, false)                          \
  f(floor, 1, all, false) f(ceil, 1, all, false) f(round, 1, all, false) f(silu, 1, floats, false)                     \
  f(mish, 1, floats, false) f(gelu, 1, floats, false) f(gelu_tanh, 1, floats, false) f(softplus, 1, floats, false)     \
  f(softsign, 1, floats, false) f(hard_swish, 1, floats, false) f(sin, 1, floats, false) f(cos, 1, floats, false)      \
  f(tan, 1, floats, false) f(asin, 1, floats, false) f(acos, 1, floats, false) f(atan, 1, floats, false)               \
  f(sinh, 1, floats, false) f(cosh, 1, floats, false) f(asinh, 1, floats, false) f(acosh, 1, floats, false)            \
  f(atanh, 1, floats, false) f(is_nan, 1, all, true) f(logical_not, 1, all, true) f(bit_not, 1, whole, false)          \
  f(identity, 1, all, false) f(add, 2, all, false) f(sub, 2, all, false) f(mul, 2, all, false) f(div, 2, all, false)   \
  f(pow, 2, all, false) f(min, 2, all, false) f(max, 2, all, false) f(mod, 2, all, false) f(fmod, 2, all, false)       \
  f(prelu, 2, all, false) f(elu, 2, floats, false) f(celu, 2, floats, false) f(thresholded_relu, 2, all, false)        \
  f(equal, 2, all, true) f(less, 2, all, true) f(less_equal, 2, all, true) f(greater, 2, all, true)                    \
  f(greater_equal, 2, all, true) f(logical_and, 2, all, true) f(logical_or, 2, all, true)                              \
  f(logical_xor, 2, all, true) f(bit_and, 2, whole, false) f(bit_or, 2, whole, false) f(bit_xor, 2, whole, false)      \
  f(shift_left, 2, whole, false) f(shift_right, 2, whole, false) f(clip, 3, all, false) f(where, 3, all, false)        \
  f(hard_sigmoid, 3, floats, false) f(selu, 3, floats, false) f(shrink, 3, floats, false) f(is_inf, 3, all, true)      \
  f(quantize, 3, floats, false)
// clang-format on

enum class Pointwise : std::uint8_t {
#define LAMINA_POINTWISE_NAME(name, ...) name,
  LAMINA_POINTWISE_FUNCTIONS(LAMINA_POINTWISE_NAME)
#undef LAMINA_POINTWISE_NAME
      to_codes,  ///< what the nearest of PointwiseStep::codes stands for, NaN the lowest
  look_up        ///< what PointwiseStep::table has for the code that the value is, in codes of the result
};

/// What a function is: a row.
struct PointwiseFunction {
  enum class Numbers : std::uint8_t { floats, all, whole };

  Pointwise function;
  std::string_view name;
  int operands;                       ///< its first included
  Numbers numbers = Numbers::floats;  ///< that it has a meaning for: of whole ones the error function has none
  bool truth = false;                 ///< what it gives is true or not
};

/// All of numbers, in the order of the enum: those that kernels of any chain compute.
std::span<const PointwiseFunction> pointwise_functions();
const PointwiseFunction& describe(Pointwise function);

/// One step of a chain: value = function(value, x, y). x is element i of the operation's input `operand`, or the number
/// `a` where that is -1; y likewise is of `second`, or `b`. A value is always the number that a code stands for.
struct PointwiseStep {
  Pointwise function = Pointwise::relu;
  int operand = -1;
  int second = -1;
  double a = 0, b = 0;
  Quantization codes = {};  ///< of to_codes, of `type`: u8 or i8
  DType type = DType::u8;
  std::shared_ptr<const CodeTable> table = {};  ///< of look_up

  friend bool operator==(const PointwiseStep&, const PointwiseStep&) = default;
};

inline PointwiseStep to_codes(DType type, const Quantization& codes) {
  return {.function = Pointwise::to_codes, .codes = codes, .type = type};
}
inline PointwiseStep look_up(std::shared_ptr<const CodeTable> table) {
  return {.function = Pointwise::look_up, .table = std::move(table)};
}

/// Functions applied in order, in registers. The value begins as the element of input 0. NaN stays NaN through each of
/// those that are continuous.
using PointwiseChain = std::vector<PointwiseStep>;

/// How many inputs an operation has that computes such a chain.
int inputs_of(const PointwiseChain& chain);

/// f(x, y) = f(y, x)
bool is_commutative(Pointwise function);

}  // namespace lamina
