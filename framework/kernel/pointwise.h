#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

/// Functions of one element of each operand, and chains of them.
namespace lamina {

/// value = f(value), f(value, x) or f(value, x, y). What each computes is in docs/inside/ops.md and, to read, in
/// cpu/array/pointwise.cpp. The order is that of `pointwise_functions`.
enum class Pointwise : std::uint8_t {
  // of one
  relu,
  sigmoid,
  tanh,
  exp,
  log,
  sqrt,
  rsqrt,
  reciprocal,
  abs,
  neg,
  sign,
  erf,
  floor,
  ceil,
  round,
  silu,
  mish,
  gelu,
  gelu_tanh,
  softplus,
  softsign,
  hard_swish,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  is_nan,
  logical_not,
  bit_not,
  identity,
  // of two
  add,
  sub,
  mul,
  div,
  pow,
  min,
  max,
  mod,
  fmod,
  prelu,
  elu,
  celu,
  thresholded_relu,
  equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  logical_xor,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  // of three
  clip,
  where,
  hard_sigmoid,
  selu,
  shrink,
  is_inf,
  quantize
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

/// All of them, in the order of the enum.
std::span<const PointwiseFunction> pointwise_functions();
inline const PointwiseFunction& describe(Pointwise f) { return pointwise_functions()[static_cast<std::size_t>(f)]; }
std::optional<PointwiseFunction> find_pointwise(std::string_view name);

/// One step of a chain: value = function(value, x, y). x is element i of the operation's input `operand`, or the number
/// `a` where that is -1; y likewise is of `second`, or `b`.
struct PointwiseStep {
  Pointwise function = Pointwise::relu;
  int operand = -1;
  int second = -1;
  double a = 0, b = 0;

  friend bool operator==(const PointwiseStep&, const PointwiseStep&) = default;
};

/// Functions applied in order, in registers. The value begins as the element of input 0. NaN stays NaN through each of
/// those that are continuous.
using PointwiseChain = std::vector<PointwiseStep>;

/// How many inputs an operation has that computes such a chain.
int inputs_of(const PointwiseChain& chain);

/// f(x, y) = f(y, x)
bool is_commutative(Pointwise function);

}  // namespace lamina
