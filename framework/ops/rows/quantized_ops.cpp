// Numbers in eight bits and what is computed with them. Quantised products are the plain layers between a
// DequantizeLinear and a QuantizeLinear; compile/eight_bits.cpp makes of that what it means.

#include "lamina/ops/rows/quantized.h"

#include <algorithm>
#include <cmath>

#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/layers/linear.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/quantization.h"
#include "lamina/ops/rows/convolve.h"
#include "lamina/ops/rows/products.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

bool is_eight_bits(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }

/// One scale or many. Throws Error unless each is a positive number.
Tensor scales_of(const Expansion& e, int node) {
  const Tensor scales = e.known(node).to(DType::f32);
  for (const float scale : scales.values<float>()) {
    if (!(scale > 0) || std::isinf(scale)) e.refuse("expected scales above 0, got ", scale);
  }
  return scales;
}

/// What broadcasts over x as scale and zero point do: one for all, one for each place along the axis, or of blocks.
struct Codebook {
  int scale, zero_point;                 ///< nodes, f32
  std::optional<Quantization> one = {};  ///< if there is one for all and it is known
};

int spread(Expansion& e, int node, int x, std::int64_t axis, std::int64_t block) {
  const Shape to = e.shape(x), from = e.shape(node);
  if (from.numel() == 1) return e.reshape(node, Shape{});
  const int along = e.axis_of(axis, e.rank(x));
  if (from.rank() == 1 && block == 0) {
    if (from[0] != to[along]) e.refuse("expected ", to[along], " scales and zero points, got ", from[0]);
    std::vector<std::int64_t> extents(to.rank(), 1);
    extents[static_cast<std::size_t>(along)] = from[0];
    return e.reshape(node, to_shape(extents));
  }
  if (block <= 0 || from.rank() != to.rank() || from[along] != (to[along] + block - 1) / block)
    e.refuse("scales and zero points ", from, " in blocks of ", block, " do not fit ", to);
  Picks picks = {.axis = along, .places = {}};
  for (std::int64_t i = 0; i < to[along]; ++i) picks.places.push_back(i / block);
  return pick(e, node, {picks});
}

Codebook codebook(Expansion& e, int x, int scale, int zero_point, std::int64_t axis, std::int64_t block) {
  const bool known = e.known(scale).defined() && (zero_point < 0 || e.known(zero_point).defined());
  if (e.known(scale).defined()) (void)scales_of(e, scale);
  if (zero_point >= 0 && e.shape(zero_point) != e.shape(scale) && e.shape(zero_point).numel() != e.shape(scale).numel())
    e.refuse("expected as many zero points as scales ", e.shape(scale), ", got ", e.shape(zero_point));
  if (known && e.shape(scale).numel() == 1) {
    const double zero = zero_point < 0 ? 0 : to_numbers(e.known(zero_point))[0];
    const Quantization one = {.scale = static_cast<float>(to_numbers(e.known(scale))[0]),
                              .zero_point = static_cast<std::int32_t>(zero)};
    return {.scale = scale, .zero_point = zero_point, .one = one};
  }
  const int zeros =
      zero_point < 0 ? e.scalar(0, DType::f32) : spread(e, e.cast(zero_point, DType::f32), x, axis, block);
  return {.scale = spread(e, e.cast(scale, DType::f32), x, axis, block), .zero_point = zeros};
}

int quantized(Expansion& e, int x, const Codebook& book, DType to) {
  Elementwise module = quantizer(to, book.one);
  return book.one ? e.add(std::move(module), {x}) : e.add(std::move(module), {x, book.scale, book.zero_point});
}
int dequantized(Expansion& e, int x, const Codebook& book) {
  Elementwise module = dequantizer(book.one);
  return book.one ? e.add(std::move(module), {x}) : e.add(std::move(module), {x, book.scale, book.zero_point});
}

/// The same of one scale and zero point; -1: 1 and 0.
int dequantized(Expansion& e, int x, int scale, int zero_point) {
  if (!is_eight_bits(e.dtype(x))) e.refuse("expected an operand of u8 or i8, got ", e.dtype(x));
  return dequantized(e, x, codebook(e, x, scale < 0 ? e.scalar(1, DType::f32) : scale, zero_point, 1, 0));
}

int quantize_linear(Expansion& e) {
  const std::int64_t axis = e.attributes().integer("axis", 1), block = e.attributes().integer("block_size", 0);
  const std::int64_t asked = e.attributes().integer("output_dtype", 0);
  e.attributes().integer("saturate", 1);
  e.attributes().integer("precision", 0);
  DType to = asked == 0 ? DType::u8 : onnx_dtype(e.op(), static_cast<int>(asked));
  if (e.has(2)) to = e.dtype(e.input(2));
  if (to != DType::u8 && to != DType::i8 && to != DType::u16 && to != DType::i16)
    e.refuse("expected to quantise to 8 or 16 bits, got ", to);
  const int x = e.cast(e.input(0), DType::f32);
  return quantized(e, x, codebook(e, x, e.input(1), e.has(2) ? e.input(2) : -1, axis, block), to);
}

int dequantize_linear(Expansion& e) {
  const std::int64_t axis = e.attributes().integer("axis", 1), block = e.attributes().integer("block_size", 0);
  const std::int64_t asked = e.attributes().integer("output_dtype", 0);
  const int x = e.input(0), scale = e.input(1), zero_point = e.has(2) ? e.input(2) : -1;
  const DType from = e.dtype(x);
  if (is_float(from) || from == DType::boolean || size_of(from) > 4)
    e.refuse("expected whole numbers of 8, 16 or 32 bits, got ", from);
  const Codebook book = codebook(e, x, scale, zero_point, axis, block);
  const int result = dequantized(e, x, book);
  const bool weights = e.known(x).defined() && e.known(scale).defined() && block == 0;
  if (weights && (is_eight_bits(from) || from == DType::i32) && e.known(result).defined()) {
    const Tensor scales = scales_of(e, scale);
    Tensor zeros = Tensor::zeros({scales.numel()}, DType::i32);
    if (zero_point >= 0) zeros = e.known(zero_point).to(DType::i32).view({scales.numel()});
    const int along = scales.numel() == 1 ? 0 : e.axis_of(axis, e.rank(x));
    e.set_codes(result, {e.known(x), scales.view({scales.numel()}), zeros, along});
  }
  return e.cast(result, asked == 0 ? e.dtype(scale) : onnx_dtype(e.op(), static_cast<int>(asked)));
}

/// Operands that say how others are meant, by their places; -1: they are not there, 1 and 0 stand for them.
Tensor known_scales(const Expansion& e, int place) {
  if (place < 0) return Tensor::from(std::vector<float>{1}, {1});
  (void)e.constant(place);
  return scales_of(e, e.input(place));
}
Tensor known_zeros(const Expansion& e, int place) {
  if (place < 0 || !e.has(place)) return Tensor::zeros({1}, DType::i32);
  return e.constant(place).to(DType::i32);
}

/// Weights [out, ...] that are an operand themselves.
EightBitWeights operand_weights(const Expansion& e, int weight, int scale, int zero_point, bool turned) {
  const Tensor values = e.constant(weight);
  if (!is_eight_bits(values.dtype())) e.refuse("expected weights of u8 or i8, got ", values.dtype());
  if (turned && values.shape().rank() != 2) e.refuse("expected a matrix, got ", values.shape());
  return in_i8(e, values, known_scales(e, scale), known_zeros(e, zero_point), turned);
}

/// Of an image of such a scale and zero point, which is around it as well.
int convolve_codes(Expansion& e, int x, int scale, int zero_point, const Tensor& bias, const EightBitWeights& eight) {
  const auto as_floats = [&e, scale, zero_point](int codes) { return dequantized(e, codes, scale, zero_point); };
  if (zero_point >= 0 && !e.known(zero_point).defined())
    return convolve_as_said(e, as_floats(x), meaning(eight), bias, eight);
  const double padding = zero_point < 0 ? 0 : to_numbers(e.known(zero_point))[0];
  return convolve_as_said(e, x, meaning(eight), bias, eight, {.padding = padding, .as_floats = as_floats});
}

int q_linear_conv(Expansion& e) {
  EightBitWeights eight = operand_weights(e, 3, 4, 5, false);
  Tensor bias;
  if (e.has(8)) {
    const Tensor whole = e.constant(8);
    if (whole.dtype() != DType::i32 || whole.numel() != eight.weight.shape()[0])
      e.refuse("expected a bias of i32 [", eight.weight.shape()[0], "], got ", whole.dtype(), ' ', whole.shape());
    set_bias(eight, whole, known_scales(e, 1).values<float>()[0]);
    bias = whole.to(DType::f32);
    for (std::size_t c = 0; c < bias.values<float>().size(); ++c)
      bias.values<float>()[c] *= eight.bias_scale.values<float>()[c];
  }
  const int y = convolve_codes(e, e.input(0), e.input(1), e.has(2) ? e.input(2) : -1, bias, eight);
  return quantized(e, y, codebook(e, y, e.input(6), e.has(7) ? e.input(7) : -1, 1, 0),
                   e.has(7) ? e.dtype(e.input(7)) : DType::u8);
}

/// sums - zero_point of_weights, whole numbers.
int less_zero_points(Expansion& e, int sums, int of_weights, int zero_point) {
  const int zero = e.reshape(e.cast(zero_point, DType::i32), Shape{});
  return e.pointwise(Pointwise::sub, {sums, e.pointwise(Pointwise::mul, {e.cast(of_weights, DType::i32), zero})});
}

/// The zero point of the image may be what only a run knows: then it is taken off as often as weights met the image.
int conv_integer(Expansion& e) {
  EightBitWeights eight = operand_weights(e, 1, -1, e.has(3) ? 3 : -1, false);
  eight.whole = true;
  const int x = e.input(0), zero = e.has(2) ? e.input(2) : -1;
  const bool known = zero < 0 || e.known(zero).defined();
  const auto sums_of = [&](const EightBitWeights& of) { return convolve_codes(e, x, -1, known ? zero : -1, {}, of); };
  const bool grouped = e.attributes().integer("group", 1) != 1;
  const int sums = grouped ? sums_of(eight) : less_weights_zero_points(e, eight, 1, sums_of);
  if (known) return sums;
  std::vector<std::int64_t> extents = extents_of(e.shape(x));
  extents[0] = 1;
  const Shape image = to_shape(extents);
  Tensor ones(image);
  std::ranges::fill(ones.values<float>(), 1.0f);
  return less_zero_points(e, sums, convolve_as_said(e, e.constant_node(ones), meaning(eight), {}, {}), zero);
}

/// a less its zero points as i32, of which there are one, or one for each of the rows, or columns.
int centred(Expansion& e, int node, int zero_point, bool rows) {
  const int wide = e.cast(node, DType::i32);
  if (zero_point < 0) return wide;
  int zeros = e.cast(zero_point, DType::i32);
  if (e.shape(zeros).numel() == 1) zeros = e.reshape(zeros, Shape{});
  if (e.rank(zeros) == 1 && rows) zeros = e.reshape(zeros, {e.shape(zeros)[0], 1});
  return e.pointwise(Pointwise::sub, {wide, zeros});
}

bool is_layer(const Expansion& e, int a, int a_zero, int b) {
  return e.known(b).defined() && e.rank(b) == 2 && e.rank(a) > 1 && e.shape(b).numel() > 0 &&
         (a_zero < 0 || e.shape(a_zero).numel() == 1);
}

int mat_mul_integer(Expansion& e) {
  const int a = e.input(0), b = e.input(1), a_zero = e.has(2) ? e.input(2) : -1, b_zero = e.has(3) ? 3 : -1;
  if (!is_eight_bits(e.dtype(a)) || !is_eight_bits(e.dtype(b)))
    e.refuse("expected operands of u8 or i8, got ", e.dtype(a), " and ", e.dtype(b));
  if (is_layer(e, a, a_zero, b) && (b_zero < 0 || e.known(e.input(3)).defined()))
    return integer_linear(e, a, a_zero, operand_weights(e, 1, -1, b_zero, true));
  const int left = centred(e, a, a_zero, true);
  return matmul(e, left, centred(e, b, b_zero < 0 ? -1 : e.input(3), false));
}

int q_linear_mat_mul(Expansion& e) {
  const int a = e.input(0), b = e.input(3), a_zero = e.input(2), b_zero = e.input(5);
  const DType to = e.dtype(e.input(7));
  if (!is_eight_bits(e.dtype(a)) || !is_eight_bits(e.dtype(b)))
    e.refuse("expected operands of u8 or i8, got ", e.dtype(a), " and ", e.dtype(b));
  if (is_layer(e, a, a_zero, b) && e.shape(e.input(1)).numel() == 1) {
    const EightBitWeights eight = operand_weights(e, 3, 4, 5, true);
    const int y = linear(e, dequantized(e, a, e.input(1), a_zero), meaning(eight), {}, eight);
    return quantized(e, y, codebook(e, y, e.input(6), e.input(7), 1, 0), to);
  }
  const int left = centred(e, a, a_zero, true),
            sums = e.cast(matmul(e, left, centred(e, b, b_zero, false)), DType::f32);
  const auto scale = [&](int place, bool rows) {
    const int node = e.cast(e.input(place), DType::f32);
    if (e.shape(node).numel() == 1) return e.reshape(node, Shape{});
    return rows && e.rank(node) == 1 ? e.reshape(node, {e.shape(node)[0], 1}) : node;
  };
  const int factors =
      e.pointwise(Pointwise::div, {e.pointwise(Pointwise::mul, {scale(1, true), scale(4, false)}), scale(6, true)});
  const int y = e.pointwise(Pointwise::mul, {sums, factors});
  return quantized(e, y, codebook(e, y, e.scalar(1, DType::f32), e.input(7), 1, 0), to);
}

int dynamic_quantize_linear(Expansion& e) {
  const std::int64_t output = e.attributes().integer("output", 0);
  const DynamicCodes codes = dynamic_codes(e, as_f32(e, e.input(0)));
  return output == 1 ? codes.scale : output == 2 ? codes.zero_point : codes.values;
}

constexpr OpRow quantized_rows[] = {{"ConvInteger", conv_integer},
                                    {"DequantizeLinear", dequantize_linear},
                                    {"DynamicQuantizeLinear", dynamic_quantize_linear},
                                    {"MatMulInteger", mat_mul_integer},
                                    {"QLinearConv", q_linear_conv},
                                    {"QLinearMatMul", q_linear_mat_mul},
                                    {"QuantizeLinear", quantize_linear}};

}  // namespace

DynamicCodes dynamic_codes(Expansion& e, int x) {
  std::vector<int> all;
  for (int d = 0; d < e.rank(x); ++d) all.push_back(d);
  const int high = e.pointwise(Pointwise::max, e.reduce(Reduction::max, x, all, false), 0);
  const int low = e.pointwise(Pointwise::min, e.reduce(Reduction::min, x, all, false), 0);
  const int width = e.pointwise(Pointwise::div, e.pointwise(Pointwise::sub, {high, low}), 255);
  const int one = e.scalar(1, DType::f32);
  const int scale = e.pointwise(Pointwise::where, {e.cast(width, DType::boolean), width, one});
  const int from = e.pointwise(Pointwise::div, {e.pointwise(Pointwise::neg, {low}), scale});
  const int zero_point =
      quantized(e, from, {.scale = one, .zero_point = one, .one = Quantization{.scale = 1}}, DType::u8);
  return {quantized(e, x, codebook(e, x, scale, zero_point, 1, 0), DType::u8), scale, zero_point};
}

int integer_linear(Expansion& e, int a, int a_zero, EightBitWeights eight) {
  eight.scale = Tensor::from(std::vector<float>(static_cast<std::size_t>(eight.scale.numel()), 1), eight.scale.shape());
  eight.whole = true;
  const bool known = a_zero < 0 || e.known(a_zero).defined();
  const Tensor weights = meaning(eight);
  const int floats = dequantized(e, a, -1, known ? a_zero : -1);
  const int sums = less_weights_zero_points(
      e, eight, -1, [&](const EightBitWeights& of) { return linear(e, floats, meaning(of), {}, of); });
  if (known) return sums;
  std::vector<double> columns;
  const auto k = static_cast<std::size_t>(weights.shape()[1]);
  for (std::size_t n = 0; n < weights.values<float>().size(); n += k) {
    const std::span<const float> row = weights.values<float>().subspan(n, k);
    double sum = 0;
    for (const float value : row) sum += static_cast<double>(value);
    columns.push_back(sum);
  }
  return less_zero_points(e, sums, constant_of(e, columns, {weights.shape()[0]}, DType::i32), a_zero);
}

std::span<const OpRow> quantized_ops() { return quantized_rows; }

}  // namespace lamina::detail
