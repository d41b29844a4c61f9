// ONNX Runtime's own quantised ops, as its quantiser writes them: what they are in ONNX's.
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

constexpr const char add_op[] = "Add", mul_op[] = "Mul", sigmoid_op[] = "Sigmoid", leaky_op[] = "LeakyRelu",
                     pool_op[] = "AveragePool", global_op[] = "GlobalAveragePool";

struct Row {
  std::string_view op;
  void (*apply)(Call&);
};
constexpr Row rows[] = {{"DequantizeLinear", same},
                        {"DynamicQuantizeLSTM", same},
                        {"QGemm", gemm},
                        {"QLinearAdd", of_two<add_op>},
                        {"QLinearAveragePool", of_one<pool_op>},
                        {"QLinearConcat", concatenate},
                        {"QLinearGlobalAveragePool", of_one<global_op>},
                        {"QLinearLeakyRelu", of_one<leaky_op>},
                        {"QLinearMul", of_two<mul_op>},
                        {"QLinearSigmoid", of_one<sigmoid_op>},
                        {"QuantizeLinear", same}};

const Row* row_of(std::string_view op) {
  const Row* row = std::ranges::find(rows, op, &Row::op);
  return row == std::end(rows) ? nullptr : row;
}

}  // namespace

bool is_microsoft(std::string_view domain, std::string_view op) {
  return domain == "com.microsoft" && row_of(op) != nullptr;
}

void from_microsoft(Call& call) { row_of(call.op)->apply(call); }

}  // namespace lamina::detail::onnx
