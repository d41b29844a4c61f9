// Functions of single elements. ONNX's name, and the function of kernel/pointwise.h that it is.

#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

template <Pointwise function>
int function_of_operands(Expansion& e) {
  return e.pointwise(function, e.all_inputs());
}

/// A function of one element whose numbers are attributes.
struct Number {
  std::string_view name;
  double fallback;
};
template <Pointwise function, auto first, auto second>
int with_numbers(Expansion& e) {
  const double a = e.attributes().number(first().name, first().fallback);
  return e.pointwise(function, e.input(0), a, e.attributes().number(second().name, second().fallback));
}
template <Pointwise function, auto first>
int with_number(Expansion& e) {
  return e.pointwise(function, e.input(0), e.attributes().number(first().name, first().fallback));
}

/// min, max, sum of any number of operands.
template <Pointwise function>
int chain_of(Expansion& e) {
  int result = e.input(0);
  for (int i = 1; i < e.count(); ++i) result = e.pointwise(function, {result, e.input(i)});
  return result;
}

int mean(Expansion& e) { return e.pointwise(Pointwise::mul, chain_of<Pointwise::add>(e), 1.0 / e.count()); }

int identity(Expansion& e) { return e.input(0); }

int dropout(Expansion& e) {
  e.attributes().number("ratio", 0.5);
  e.attributes().integer("seed", 0);
  const bool training = e.has(2) && e.number(2) != 0;
  if (training && (!e.has(1) || e.number(1) != 0)) e.refuse("training is not what Lamina does");
  if (e.attributes().integer("output", 0) == 0) return e.input(0);
  return e.constant_node(
      Tensor::from(std::vector<std::uint8_t>(static_cast<std::size_t>(e.shape(e.input(0)).numel()), 1),
                   e.shape(e.input(0)))
          .to(DType::boolean));
}

/// A square is a product, and a cube two.
int pow(Expansion& e) {
  const int x = e.input(0), power = e.input(1);
  const Tensor& known = e.known(power);
  if (is_float(e.dtype(x)) && known.defined() && known.numel() == 1 && e.rank(power) <= e.rank(x)) {
    const double number = to_numbers(known)[0];
    const auto times_x = [&](int value) { return e.pointwise(Pointwise::mul, {x, value}); };
    if (number == 2) return times_x(x);
    if (number == 3) return times_x(times_x(x));
  }
  return e.pointwise(Pointwise::pow, {x, power});
}

int gelu(Expansion& e) {
  const std::string how = e.attributes().text("approximate", "none");
  if (how != "none" && how != "tanh") e.refuse("expected approximate of none or tanh, got ", how);
  return e.pointwise(how == "tanh" ? Pointwise::gelu_tanh : Pointwise::gelu, {e.input(0)});
}

int swish(Expansion& e) {
  const double alpha = e.attributes().number("alpha", 1);
  if (alpha == 1) return e.pointwise(Pointwise::silu, {e.input(0)});
  return e.pointwise(Pointwise::mul,
                     {e.input(0), e.pointwise(Pointwise::sigmoid, {e.pointwise(Pointwise::mul, e.input(0), alpha)})});
}

int modulo(Expansion& e) {
  return e.pointwise(e.attributes().boolean("fmod", false) ? Pointwise::fmod : Pointwise::mod, e.all_inputs());
}

int shift(Expansion& e) {
  const std::string direction = e.attributes().text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") e.refuse("expected a direction of LEFT or RIGHT");
  return e.pointwise(direction == "LEFT" ? Pointwise::shift_left : Pointwise::shift_right, e.all_inputs());
}

int is_inf(Expansion& e) {
  const double negative = e.attributes().integer("detect_negative", 1);
  return e.pointwise(Pointwise::is_inf, e.input(0), negative, e.attributes().integer("detect_positive", 1));
}

int clip(Expansion& e) {
  const int x = e.input(0);
  const bool low = e.has(1), high = e.has(2);
  if (low && high) return e.pointwise(Pointwise::clip, {x, e.input(1), e.input(2)});
  if (low) return e.pointwise(Pointwise::max, {x, e.input(1)});
  return high ? e.pointwise(Pointwise::min, {x, e.input(2)}) : x;
}

/// PReLU's slopes broadcast from the right, a channel's own begin at axis 1 (as in torch) where that alone fits.
int prelu(Expansion& e) {
  const int x = e.input(0), slope = e.input(1);
  const Shape &xs = e.shape(x), &ss = e.shape(slope);
  const bool channels = ss.rank() == 1 && xs.rank() > 2 && ss[0] == xs[1] && ss[0] != 1 && ss[0] != xs[-1];
  if (!channels) return e.pointwise(Pointwise::prelu, {x, slope});
  std::vector<std::int64_t> extents(xs.rank() - 1, 1);
  extents[0] = ss[0];
  return e.pointwise(Pointwise::prelu, {x, e.reshape(slope, Shape(std::span<const std::int64_t>(extents)))});
}

int cast(Expansion& e) {
  e.attributes().boolean("saturate", true);
  e.attributes().text("round_mode", "up");
  return e.cast(e.input(0), onnx_dtype(e.op(), e.attributes().integer("to", 0)));
}

int cast_like(Expansion& e) {
  e.attributes().boolean("saturate", true);
  e.attributes().text("round_mode", "up");
  return e.cast(e.input(0), e.dtype(e.input(1)));
}

// Template arguments cannot hold texts; functions that return them can.
constexpr Number leaky_alpha() { return {"alpha", 0.01}; }
constexpr Number elu_alpha() { return {"alpha", 1}; }
constexpr Number selu_alpha() { return {"alpha", 1.67326319217681884765625}; }
constexpr Number selu_gamma() { return {"gamma", 1.05070102214813232421875}; }
constexpr Number hard_alpha() { return {"alpha", 0.2}; }
constexpr Number hard_beta() { return {"beta", 0.5}; }
constexpr Number shrink_bias() { return {"bias", 0}; }
constexpr Number shrink_lambda() { return {"lambd", 0.5}; }

template <Pointwise f>
constexpr auto all = function_of_operands<f>;
using P = Pointwise;

// clang-format off
constexpr OpRow pointwise_rows[] = {
    {"Abs", all<P::abs>}, {"Acos", all<P::acos>}, {"Acosh", all<P::acosh>}, {"Add", all<P::add>},
    {"And", all<P::logical_and>}, {"Asin", all<P::asin>}, {"Asinh", all<P::asinh>}, {"Atan", all<P::atan>},
    {"Atanh", all<P::atanh>}, {"BitShift", shift}, {"BitwiseAnd", all<P::bit_and>}, {"BitwiseNot", all<P::bit_not>},
    {"BitwiseOr", all<P::bit_or>}, {"BitwiseXor", all<P::bit_xor>}, {"Cast", cast}, {"CastLike", cast_like},
    {"Ceil", all<P::ceil>}, {"Celu", with_number<P::celu, elu_alpha>}, {"Clip", clip}, {"Cos", all<P::cos>},
    {"Cosh", all<P::cosh>}, {"Div", all<P::div>}, {"Dropout", dropout}, {"Elu", with_number<P::elu, elu_alpha>},
    {"Equal", all<P::equal>}, {"Erf", all<P::erf>}, {"Exp", all<P::exp>}, {"Floor", all<P::floor>}, {"Gelu", gelu},
    {"Greater", all<P::greater>}, {"GreaterOrEqual", all<P::greater_equal>},
    {"HardSigmoid", with_numbers<P::hard_sigmoid, hard_alpha, hard_beta>}, {"HardSwish", all<P::hard_swish>},
    {"Identity", identity}, {"IsInf", is_inf}, {"IsNaN", all<P::is_nan>},
    {"LeakyRelu", with_number<P::prelu, leaky_alpha>}, {"Less", all<P::less>}, {"LessOrEqual", all<P::less_equal>},
    {"Log", all<P::log>}, {"Max", chain_of<P::max>}, {"Mean", mean}, {"Min", chain_of<P::min>}, {"Mish", all<P::mish>},
    {"Mod", modulo}, {"Mul", all<P::mul>}, {"Neg", all<P::neg>}, {"Not", all<P::logical_not>},
    {"Or", all<P::logical_or>}, {"PRelu", prelu}, {"Pow", pow}, {"Reciprocal", all<P::reciprocal>},
    {"Relu", all<P::relu>}, {"Round", all<P::round>}, {"Rsqrt", all<P::rsqrt>},
    {"Selu", with_numbers<P::selu, selu_alpha, selu_gamma>},
    {"Shrink", with_numbers<P::shrink, shrink_bias, shrink_lambda>}, {"Sigmoid", all<P::sigmoid>},
    {"Sign", all<P::sign>}, {"Sin", all<P::sin>}, {"Sinh", all<P::sinh>}, {"Softplus", all<P::softplus>},
    {"Softsign", all<P::softsign>}, {"Sqrt", all<P::sqrt>}, {"Sub", all<P::sub>}, {"Sum", chain_of<P::add>},
    {"Swish", swish}, {"Tan", all<P::tan>}, {"Tanh", all<P::tanh>},
    {"ThresholdedRelu", with_number<P::thresholded_relu, elu_alpha>}, {"Where", all<P::where>},
    {"Xor", all<P::logical_xor>}};
// clang-format on

}  // namespace

std::span<const OpRow> pointwise_ops() { return pointwise_rows; }

}  // namespace lamina::detail
