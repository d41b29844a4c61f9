#include "lamina/kernel/pointwise.h"

#include <algorithm>

namespace lamina {
namespace {

// clang-format off
constexpr auto all = PointwiseFunction::Numbers::all, whole = PointwiseFunction::Numbers::whole;

constexpr PointwiseFunction functions[] = {
    {Pointwise::relu, "relu", 1, all}, {Pointwise::sigmoid, "sigmoid", 1}, {Pointwise::tanh, "tanh", 1},
    {Pointwise::exp, "exp", 1}, {Pointwise::log, "log", 1}, {Pointwise::sqrt, "sqrt", 1},
    {Pointwise::rsqrt, "rsqrt", 1}, {Pointwise::reciprocal, "reciprocal", 1}, {Pointwise::abs, "abs", 1, all},
    {Pointwise::neg, "neg", 1, all}, {Pointwise::sign, "sign", 1, all}, {Pointwise::erf, "erf", 1},
    {Pointwise::floor, "floor", 1, all}, {Pointwise::ceil, "ceil", 1, all}, {Pointwise::round, "round", 1, all},
    {Pointwise::silu, "silu", 1}, {Pointwise::mish, "mish", 1}, {Pointwise::gelu, "gelu", 1},
    {Pointwise::gelu_tanh, "gelu_tanh", 1}, {Pointwise::softplus, "softplus", 1},
    {Pointwise::softsign, "softsign", 1}, {Pointwise::hard_swish, "hard_swish", 1}, {Pointwise::sin, "sin", 1},
    {Pointwise::cos, "cos", 1}, {Pointwise::tan, "tan", 1}, {Pointwise::asin, "asin", 1},
    {Pointwise::acos, "acos", 1}, {Pointwise::atan, "atan", 1}, {Pointwise::sinh, "sinh", 1},
    {Pointwise::cosh, "cosh", 1}, {Pointwise::asinh, "asinh", 1}, {Pointwise::acosh, "acosh", 1},
    {Pointwise::atanh, "atanh", 1}, {Pointwise::is_nan, "is_nan", 1, all, true},
    {Pointwise::logical_not, "logical_not", 1, all, true}, {Pointwise::bit_not, "bit_not", 1, whole},
    {Pointwise::identity, "identity", 1, all},
    {Pointwise::add, "add", 2, all}, {Pointwise::sub, "sub", 2, all}, {Pointwise::mul, "mul", 2, all},
    {Pointwise::div, "div", 2, all}, {Pointwise::pow, "pow", 2, all}, {Pointwise::min, "min", 2, all},
    {Pointwise::max, "max", 2, all}, {Pointwise::mod, "mod", 2, all}, {Pointwise::fmod, "fmod", 2, all},
    {Pointwise::prelu, "prelu", 2, all}, {Pointwise::elu, "elu", 2}, {Pointwise::celu, "celu", 2},
    {Pointwise::thresholded_relu, "thresholded_relu", 2, all}, {Pointwise::equal, "equal", 2, all, true},
    {Pointwise::less, "less", 2, all, true}, {Pointwise::less_equal, "less_equal", 2, all, true},
    {Pointwise::greater, "greater", 2, all, true}, {Pointwise::greater_equal, "greater_equal", 2, all, true},
    {Pointwise::logical_and, "logical_and", 2, all, true}, {Pointwise::logical_or, "logical_or", 2, all, true},
    {Pointwise::logical_xor, "logical_xor", 2, all, true}, {Pointwise::bit_and, "bit_and", 2, whole},
    {Pointwise::bit_or, "bit_or", 2, whole}, {Pointwise::bit_xor, "bit_xor", 2, whole},
    {Pointwise::shift_left, "shift_left", 2, whole}, {Pointwise::shift_right, "shift_right", 2, whole},
    {Pointwise::clip, "clip", 3, all}, {Pointwise::where, "where", 3, all},
    {Pointwise::hard_sigmoid, "hard_sigmoid", 3}, {Pointwise::selu, "selu", 3}, {Pointwise::shrink, "shrink", 3},
    {Pointwise::is_inf, "is_inf", 3, all, true}, {Pointwise::quantize, "quantize", 3}};
// clang-format on

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(functions); ++i) {
    if (functions[i].function != static_cast<Pointwise>(i)) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const PointwiseFunction> pointwise_functions() { return functions; }

std::optional<PointwiseFunction> find_pointwise(std::string_view name) {
  const auto found = std::ranges::find(functions, name, &PointwiseFunction::name);
  return found == std::end(functions) ? std::nullopt : std::optional(*found);
}

int inputs_of(const PointwiseChain& chain) {
  int inputs = 1;
  for (const PointwiseStep& step : chain) inputs = std::max({inputs, step.operand + 1, step.second + 1});
  return inputs;
}

bool is_commutative(Pointwise function) {
  using enum Pointwise;
  return function == add || function == mul || function == min || function == max;
}

}  // namespace lamina
