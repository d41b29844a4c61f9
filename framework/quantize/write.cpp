// From a draft back to a graph: products as ops of ONNX, with QuantizeLinear and DequantizeLinear around those that are
// to be computed in eight bits.

#include <algorithm>
#include <cmath>
#include <set>

#include "lamina/base/error.h"
#include "lamina/ops/op.h"
#include "lamina/quantize/draft.h"
#include "lamina/tensor/matrices.h"

namespace lamina::detail {
namespace {

class Writer {
 public:
  Writer(const Draft& draft, const Draft::Choice& choice)
      : draft_(draft),
        choice_(choice),
        stored_(draft.stored(choice.products)),
        values_(draft.items.size()),
        read_(values_) {
    std::vector<bool> needed(draft.items.size(), false);
    for (const int output : draft.outputs) needed[static_cast<std::size_t>(output)] = true;
    for (std::size_t i = draft.items.size(); i-- > 0;) {
      needed[i] = needed[i] || draft.items[i].module == nullptr;
      if (!needed[i]) continue;
      names_.insert(draft.items[i].name);
      for (const int input : draft.items[i].inputs) {
        if (input >= 0) needed[static_cast<std::size_t>(input)] = true;
      }
    }
    for (std::size_t i = 0; i < draft.items.size(); ++i) {
      if (needed[i]) write(i);
    }
    for (const int output : draft.outputs) graph_.output(values_[static_cast<std::size_t>(output)]);
  }

  Graph take() { return std::move(graph_); }

 private:
  std::string unused(std::string name) {
    while (!names_.insert(name).second) name += '_';
    return name;
  }
  Value constant(const std::string& name, Tensor value) {
    return graph_.add(unused(name), std::make_shared<Constant>(std::move(value)), {});
  }
  Value op(std::string name, std::string_view op, Attributes attributes, std::vector<Value> inputs) {
    return graph_.add(std::move(name), std::make_shared<Op>(std::string(op), std::move(attributes)), inputs);
  }
  /// What codes stand for, with a scale for each place along the axis.
  Value meaning(const std::string& name, Tensor codes, Tensor scale, std::int64_t axis) {
    const Value value = constant(name, std::move(codes)), by = constant(name + "_scale", std::move(scale));
    return op(unused(name + "_dequantized"), "DequantizeLinear", {{"axis", axis}}, {value, by});
  }

  void write(std::size_t i) {
    const Item& item = draft_.items[i];
    if (item.module == nullptr) {
      values_[i] = graph_.input(item.name, *item.shape, item.dtype);
    } else if (item.product) {
      values_[i] = product(item, i);
    } else {
      std::vector<Value> inputs;
      for (const int input : item.inputs)
        inputs.push_back(input < 0 ? Value() : read_[static_cast<std::size_t>(input)]);
      values_[i] = graph_.add(item.name, item.module, inputs);
    }
    read_[i] = values_[i];
    if (!stored_[i]) return;
    const Quantization& codes = choice_.codes[i];
    const Value scale = constant(item.name + "_scale", Tensor::from(std::vector<float>{codes.scale}, Shape{}));
    const Value zero =
        constant(item.name + "_zero_point",
                 Tensor::from(std::vector<std::uint8_t>{static_cast<std::uint8_t>(codes.zero_point)}, Shape{}));
    const Value quantized = op(unused(item.name + "_quantized"), "QuantizeLinear", {}, {values_[i], scale, zero});
    read_[i] = op(unused(item.name + "_dequantized"), "DequantizeLinear", {}, {quantized, scale, zero});
  }

  Value product(const Item& item, std::size_t i) {
    const Product& p = *item.product;
    const auto input = static_cast<std::size_t>(item.inputs[0]);
    const bool conv = p.kind == Product::Kind::conv, matmul = p.kind == Product::Kind::matmul;
    std::vector<Value> operands = {read_[input]};
    Tensor bias = p.bias;
    Value added;
    const auto rows = static_cast<std::int64_t>(p.out());
    if (!choice_.products[i]) {
      operands.push_back(constant(item.name + ".weight", matmul ? transposed(p.weight) : p.weight));
      if (bias.defined()) added = constant(item.name + ".bias", bias);
    } else {
      const float scale = choice_.codes[input].scale;
      const Codes8 codes = codes_of(p, scale);
      if (!choice_.means.empty()) bias = corrected_bias(p, codes, choice_.means[input]);
      operands.push_back(meaning(item.name + ".weight", matmul ? transposed(codes.weight) : codes.weight, codes.scale,
                                 matmul ? 1 : 0));
      if (bias.defined()) {
        Tensor whole({rows}, DType::i32), scales({rows});
        for (std::size_t c = 0; c < p.out(); ++c) {
          const float unit = scale * codes.scale.values<float>()[c];
          scales.values<float>()[c] = unit;
          const double steps = std::nearbyint(static_cast<double>(bias.values<float>()[c]) / static_cast<double>(unit));
          whole.values<std::int32_t>()[c] = static_cast<std::int32_t>(std::clamp(steps, -2147483648.0, 2147483647.0));
        }
        added = meaning(item.name + ".bias", whole, scales, 0);
      }
    }
    if (bias.defined() && !matmul) operands.push_back(added);
    if (conv) return op(item.name, "Conv", p.attributes, operands);
    if (!matmul) return op(item.name, "Gemm", {{"transB", std::int64_t{1}}}, operands);
    if (!bias.defined()) return op(item.name, "MatMul", {}, operands);
    const Value sum = op(unused(item.name + "_product"), "MatMul", {}, operands);
    return op(item.name, "Add", {}, {sum, added});
  }

  const Draft& draft_;
  const Draft::Choice& choice_;
  std::vector<bool> stored_;
  std::vector<Value> values_, read_;  // by item: what computes it, and what its readers read
  std::set<std::string, std::less<>> names_;
  Graph graph_;
};

}  // namespace

Graph Draft::graph(const Choice& choice) const { return Writer(*this, choice).take(); }

Codes8 codes_of(const Product& product, float input_scale) {
  const auto rows = static_cast<std::int64_t>(product.out());
  Codes8 result = {Tensor(product.weight.shape(), DType::i8), Tensor({rows})};
  const std::size_t row = product.in() * product.taps();
  for (std::size_t c = 0; c < product.out(); ++c) {
    const std::span<const float> from = product.weight.values<float>().subspan(c * row, row);
    const std::span<std::int8_t> to = result.weight.values<std::int8_t>().subspan(c * row, row);
    double most = 0;
    for (const float w : from) most = std::max(most, std::abs(static_cast<double>(w)));
    double step = most / 127;
    if (product.bias.defined()) {  // which has 31 bits
      const double bias = std::abs(static_cast<double>(product.bias.values<float>()[c]));
      step = std::max(step, bias / (static_cast<double>(input_scale) * 0x1p30));
    }
    // Channels of zeros have any scale; what is smaller than a normal number is as good as zero.
    const auto scale = step < 0x1p-100 ? 1.0F : static_cast<float>(step);
    result.scale.values<float>()[c] = scale;
    for (std::size_t i = 0; i < row; ++i)
      to[i] = static_cast<std::int8_t>(std::clamp(std::nearbyint(from[i] / scale), -127.0F, 127.0F));
  }
  return result;
}

Tensor corrected_bias(const Product& product, const Codes8& codes, std::span<const float> means) {
  Tensor result = Tensor::zeros({static_cast<std::int64_t>(product.out())});
  if (product.bias.defined()) result.copy_from(product.bias);
  const std::size_t in = product.in(), taps = product.taps(),
                    filters = product.out() / static_cast<std::size_t>(product.groups);
  if (means.size() != in * static_cast<std::size_t>(product.groups)) return product.bias;
  for (std::size_t c = 0; c < product.out(); ++c) {
    const double scale = static_cast<double>(codes.scale.values<float>()[c]);
    double shift = 0;
    for (std::size_t k = 0; k < in * taps; ++k) {
      const std::size_t at = c * in * taps + k;
      const double off =
          scale * codes.weight.values<std::int8_t>()[at] - static_cast<double>(product.weight.values<float>()[at]);
      shift += off * static_cast<double>(means[c / filters * in + k / taps]);
    }
    result.values<float>()[c] -= static_cast<float>(shift);
  }
  return result;
}

}  // namespace lamina::detail
