#include "lamina/layers/absorption.h"

#include <algorithm>

#include "lamina/layers/elementwise.h"

namespace lamina::detail {

const PointwiseChain* chain_of(const Module& module) {
  const auto* functions = dynamic_cast<const Elementwise*>(&module);
  const bool f32 = functions != nullptr && functions->compute() == DType::f32 && functions->output() == DType::f32;
  return f32 ? &functions->chain() : nullptr;
}

bool append(PointwiseChain& chain, const Module& next, std::span<const Module::Operand> operands) {
  const PointwiseChain* following = chain_of(next);
  if (following == nullptr || chain.size() + following->size() > longest_chain) return false;
  PointwiseChain steps = *following;
  const auto is_own = [&](int input) {
    return input >= 0 && operands[static_cast<std::size_t>(input)].input == Module::Operand::own;
  };
  if (!is_own(0)) {  // f(x, own) as f(own, x)
    if (steps.empty() || !is_commutative(steps[0].function) || !is_own(steps[0].operand)) return false;
    steps[0].operand = 0;
  }
  for (PointwiseStep& step : steps) {
    for (int* operand : {&step.operand, &step.second}) {
      if (is_own(*operand)) return false;  // the chain's value as it was before
      if (*operand >= 0) *operand = operands[static_cast<std::size_t>(*operand)].input;
    }
  }
  chain.insert(chain.end(), steps.begin(), steps.end());
  return true;
}

std::optional<PerChannel> per_channel(const Module& next, std::span<const Module::Operand> operands,
                                      std::int64_t channels, std::size_t trailing) {
  const PointwiseChain* chain = chain_of(next);
  if (chain == nullptr || chain->size() != 1 || operands.size() != 2 || (*chain)[0].operand != 1) return std::nullopt;
  const bool first = operands[0].input == Module::Operand::own;
  const Tensor& known = operands[first ? 1 : 0].constant;
  if (!known.defined() || known.dtype() != DType::f32 || known.numel() != channels) return std::nullopt;
  const std::size_t rank = known.shape().rank();
  if (rank <= trailing || known.shape().extents()[rank - 1 - trailing] != channels) return std::nullopt;
  const std::span<const float> values = known.values<float>();
  PerChannel result;
  switch ((*chain)[0].function) {
    case Pointwise::add: result.shift.assign(values.begin(), values.end()); break;
    case Pointwise::mul: result.scale.assign(values.begin(), values.end()); break;
    case Pointwise::sub:
      if (!first) return std::nullopt;
      for (const float value : values) result.shift.push_back(-value);
      break;
    default: return std::nullopt;
  }
  return result;
}

Tensor scaled_rows(const Tensor& weight, std::span<const float> scale) {
  Tensor result = weight.clone();
  const std::span<float> values = result.values<float>();
  const std::size_t length = values.size() / scale.size();
  for (std::size_t row = 0; row < scale.size(); ++row) {
    for (float& value : values.subspan(row * length, length)) value *= scale[row];
  }
  return result;
}

Tensor scaled_and_shifted(const Tensor& bias, const PerChannel& factors) {
  const std::size_t channels = std::max(factors.scale.size(), factors.shift.size());
  Tensor result = bias.defined() ? bias.clone() : Tensor::zeros({static_cast<std::int64_t>(channels)});
  const std::span<float> values = result.values<float>();
  for (std::size_t c = 0; c < channels; ++c) {
    if (!factors.scale.empty()) values[c] *= factors.scale[c];
    if (!factors.shift.empty()) values[c] += factors.shift[c];
  }
  return result;
}

}  // namespace lamina::detail
