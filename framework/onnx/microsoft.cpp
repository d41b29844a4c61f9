// ONNX Runtime's own ops, as its quantiser and its optimiser write them: what they are in ONNX's.
//
// Source: ONNX Runtime, docs/ContribOperators.md.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/onnx/call.h"

namespace lamina::detail::onnx {
namespace {

int add(Call& call, std::string_view what, std::string op, Attributes attributes, std::vector<int> inputs) {
  return call.builder.op(concat(call.name, '/', what), std::move(op), std::move(attributes), std::move(inputs));
}

int input(const Call& call, std::size_t place) { return call.has(place) ? call.inputs[place] : -1; }

/// The operand at `place`, whose scale and zero point stand behind it.
int dequantized(Call& call, std::size_t place, std::int64_t axis = 1) {
  if (input(call, place) < 0 || input(call, place + 1) < 0) fail("expected operand ", place + 1, " and its scale");
  return add(call, concat("operand_", place), "DequantizeLinear", {{"axis", axis}},
             {input(call, place), input(call, place + 1), input(call, place + 2)});
}

/// The op itself on what its operands stand for, and its result quantised by what stands at `place`.
void quantize(Call& call, std::string op, std::vector<int> operands, std::size_t place) {
  if (input(call, place) < 0) fail("expected operand ", place + 1, ", the scale of the result");
  const int result = add(call, "result", std::move(op), std::exchange(call.attributes, {}), std::move(operands));
  call.op = "QuantizeLinear";
  call.inputs = {result, input(call, place), input(call, place + 1)};
}

template <auto& op>
void of_two(Call& call) {
  const int a = dequantized(call, 0), b = dequantized(call, 3);
  quantize(call, op, {a, b}, 6);
}

template <auto& op>
void of_one(Call& call) {
  if (call.take_integer("channels_last", 0) != 0) fail("channels_last: expected 0");
  quantize(call, op, {dequantized(call, 0)}, 3);
}

void concatenate(Call& call) {
  std::vector<int> operands;
  for (std::size_t i = 2; i + 2 < call.inputs.size(); i += 3) operands.push_back(dequantized(call, i));
  quantize(call, "Concat", std::move(operands), 0);
}

void gemm(Call& call) {
  const Attribute* const turned = call.find("transB");
  const bool rows = turned != nullptr && *turned == Attribute(std::int64_t{1});
  std::vector<int> operands = {dequantized(call, 0), dequantized(call, 3, rows ? 0 : 1)};
  if (input(call, 6) >= 0) {
    const int scale = add(call, "bias_scale", "Mul", {}, {input(call, 1), input(call, 4)});
    operands.push_back(add(call, "bias", "DequantizeLinear", {{"axis", std::int64_t{0}}}, {input(call, 6), scale}));
  }
  if (input(call, 7) >= 0) return quantize(call, "Gemm", std::move(operands), 7);
  call.op = "Gemm";
  call.inputs = std::move(operands);
}

void same(Call&) {}

/// An activation of what the node's op gives, whose numbers are attributes of its own names.
void activated(Call& call, std::string op, std::vector<int> operands, std::string_view activation,
               const std::vector<double>& numbers) {
  const auto number = [&](std::size_t i) { return i < numbers.size() ? numbers[i] : 0.0; };
  if (activation.empty()) {
    call.op = std::move(op), call.inputs = std::move(operands);
    return;
  }
  Attributes attributes;
  if (activation == "LeakyRelu" || activation == "HardSigmoid") attributes.emplace_back("alpha", number(0));
  if (activation == "HardSigmoid") attributes.emplace_back("beta", number(1));
  const bool plain = activation == "Relu" || activation == "Tanh" || activation == "Sigmoid";
  if (!plain && attributes.empty() && activation != "Clip") fail("there is no activation ", activation);
  call.inputs = {
      add(call, "result", std::move(op), std::exchange(call.attributes, std::move(attributes)), std::move(operands))};
  call.op = activation;
  for (std::size_t i = 0; activation == "Clip" && i < 2; ++i)
    call.set_input(i + 1, call.number(i == 0 ? "min" : "max", number(i)));
}

/// A convolution, with a summand behind the bias.
void fused_conv(Call& call) {
  const std::string activation = call.take_text("activation", "");
  const std::vector<double> numbers = call.take_numbers("activation_params");
  if (input(call, 3) < 0) return activated(call, "Conv", call.inputs, activation, numbers);
  const int conv =
      add(call, "conv", "Conv", std::exchange(call.attributes, {}), {input(call, 0), input(call, 1), input(call, 2)});
  activated(call, "Add", {conv, input(call, 3)}, activation, numbers);
}

void fused_gemm(Call& call) {
  const std::string activation = call.take_text("activation", "");
  const double a = call.take_number("activation_alpha", 0), b = call.take_number("activation_beta", 0);
  call.erase("activation_gamma");
  activated(call, "Gemm", call.inputs, activation, {a, b});
}

/// Of a sum with a bias, if there is one.
template <bool approximate>
void gelu(Call& call) {
  if (input(call, 1) >= 0) call.inputs = {add(call, "sum", "Add", {}, {input(call, 0), input(call, 1)})};
  call.inputs.resize(1);
  call.op = "Gelu";
  if (approximate) call.set("approximate", "tanh");
}

void quick_gelu(Call& call) {
  call.op = "Swish";
  if (call.find("alpha") == nullptr) call.set("alpha", 1.702);
}

/// The projections of all three at once, and what is left of it.
void packed_attention(Call& call) {
  if (call.take_integer("do_rotary", 0) != 0 || input(call, 4) >= 0)
    fail("rotary embeddings and a past are not supported");
  const std::vector<std::int64_t> sizes = call.take_integers("qkv_hidden_sizes");
  int all = add(call, "product", "MatMul", {}, {input(call, 0), input(call, 1)});
  if (input(call, 2) >= 0) all = add(call, "sum", "Add", {}, {all, input(call, 2)});
  std::vector<int> split = {all};
  if (!sizes.empty()) split.push_back(call.integers("sizes", sizes));
  std::vector<int> operands;
  for (std::int64_t i = 0; i < 3; ++i) {
    Attributes attributes = {{"axis", std::int64_t{-1}}, {"output", i}};
    if (sizes.empty()) attributes.emplace_back("num_outputs", std::int64_t{3});
    operands.push_back(add(call, concat("part_", i), "Split", std::move(attributes), split));
  }
  call.op = "MultiHeadAttention";
  call.inputs = {operands[0], operands[1], operands[2], -1, input(call, 3), input(call, 5)};
}

/// Sums of whole numbers times the scales of both, and a bias. Operands: a, b, scales, zero points, bias.
void product_of_codes(Call& call, const std::vector<int>& of) {
  const int sums = add(call, "sums", "MatMulInteger", {}, {of[0], of[1], of[4], of[5]});
  const int floats = add(call, "floats", "Cast", {{"to", std::int64_t{1}}}, {sums});
  const int scale = add(call, "scale", "Mul", {}, {of[2], of[3]});
  call.op = "Mul", call.inputs = {floats, scale};
  if (of[6] < 0) return;
  call.inputs = {add(call, "product", "Mul", {}, call.inputs), of[6]};
  call.op = "Add";
}
void integers_to_float(Call& call) {
  std::vector<int> operands;
  for (std::size_t i = 0; i < 7; ++i) operands.push_back(input(call, i));
  product_of_codes(call, operands);
}
void dynamic_mat_mul(Call& call) {
  std::vector<int> codes;
  for (std::int64_t i = 0; i < 3; ++i)
    codes.push_back(add(call, concat("codes_", i), "DynamicQuantizeLinear", {{"output", i}}, {input(call, 0)}));
  product_of_codes(call,
                   {codes[0], input(call, 1), codes[1], input(call, 2), codes[2], input(call, 3), input(call, 4)});
}

/// ONNX's own, before it is in an operator set: without functions of the scores it is Attention.
constexpr std::string_view flexible = "FlexAttention";
void flex_attention(Call& call) { call.op = "Attention"; }

constexpr const char add_op[] = "Add", mul_op[] = "Mul", sigmoid_op[] = "Sigmoid", leaky_op[] = "LeakyRelu",
                     pool_op[] = "AveragePool", global_op[] = "GlobalAveragePool";

struct Row {
  std::string_view op;
  void (*apply)(Call&);
};
constexpr Row rows[] = {{"Attention", packed_attention},
                        {"BiasGelu", gelu<false>},
                        {"DequantizeLinear", same},
                        {"DynamicQuantizeLSTM", same},
                        {"DynamicQuantizeMatMul", dynamic_mat_mul},
                        {"FastGelu", gelu<true>},
                        {flexible, flex_attention},
                        {"FusedConv", fused_conv},
                        {"FusedGemm", fused_gemm},
                        {"FusedMatMul", same},
                        {"Gelu", gelu<false>},
                        {"MatMulIntegerToFloat", integers_to_float},
                        {"MultiHeadAttention", same},
                        {"QGemm", gemm},
                        {"QLinearAdd", of_two<add_op>},
                        {"QLinearAveragePool", of_one<pool_op>},
                        {"QLinearConcat", concatenate},
                        {"QLinearGlobalAveragePool", of_one<global_op>},
                        {"QLinearLeakyRelu", of_one<leaky_op>},
                        {"QLinearMul", of_two<mul_op>},
                        {"QLinearSigmoid", of_one<sigmoid_op>},
                        {"QuantizeLinear", same},
                        {"QuickGelu", quick_gelu},
                        {"SkipLayerNormalization", same},
                        {"SkipSimplifiedLayerNormalization", same}};

const Row* row_of(std::string_view op) {
  const Row* row = std::ranges::find(rows, op, &Row::op);
  return row == std::end(rows) ? nullptr : row;
}

}  // namespace

bool is_microsoft(std::string_view domain, std::string_view op) {
  return domain == (op == flexible ? "ai.onnx.preview" : "com.microsoft") && row_of(op) != nullptr;
}

void from_microsoft(Call& call) { row_of(call.op)->apply(call); }

}  // namespace lamina::detail::onnx
