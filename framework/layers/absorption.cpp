#include "lamina/layers/absorption.h"

#include <algorithm>

#include <cmath>

#include "lamina/layers/elementwise.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/views.h"

namespace lamina::detail {

const PointwiseChain* chain_of(const Module& module) {
  const auto* functions = dynamic_cast<const Elementwise*>(&module);
  const bool f32 = functions != nullptr && functions->compute() == DType::f32 && functions->output() == DType::f32;
  const auto looks_up = [](const PointwiseStep& step) { return step.function == Pointwise::look_up; };
  return f32 && std::ranges::none_of(functions->chain(), looks_up) ? &functions->chain() : nullptr;
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
  if (chain == nullptr || chain->size() != 1) return std::nullopt;
  const PointwiseStep& step = (*chain)[0];
  if (step.function == Pointwise::mul && step.operand < 0)
    return PerChannel{.scale = std::vector(static_cast<std::size_t>(channels), step.a), .shift = {}};
  if (operands.size() != 2 || step.operand != 1) return std::nullopt;
  const bool first = operands[0].input == Module::Operand::own;
  const Tensor& known = operands[first ? 1 : 0].constant;
  if (!known.defined() || known.dtype() != DType::f32 || known.numel() != channels) return std::nullopt;
  const std::size_t rank = known.shape().rank();
  if (rank <= trailing || known.shape().extents()[rank - 1 - trailing] != channels) return std::nullopt;
  const std::span<const float> values = known.values<float>();
  PerChannel result;
  switch (step.function) {
    case Pointwise::add: result.shift.assign(values.begin(), values.end()); break;
    case Pointwise::mul: result.scale.assign(values.begin(), values.end()); break;
    case Pointwise::sub:
      if (!first) return std::nullopt;
      for (const float value : values) result.shift.push_back(-static_cast<double>(value));
      break;
    default: return std::nullopt;
  }
  return result;
}

namespace {

/// With factors and summands of `channels`, each of `inner` elements; multiplied in double precision and rounded once.
std::optional<NormProblem> with_factors(const NormProblem& norm, const PerChannel& factors, std::int64_t inner) {
  const std::size_t channels = std::max(factors.scale.size(), factors.shift.size());
  const auto count = static_cast<std::int64_t>(channels);
  const bool has_own = norm.scale.defined() || norm.shift.defined();
  if (has_own && (norm.inner != inner || norm.channels != count)) return std::nullopt;
  NormProblem result = norm;
  result.inner = inner, result.channels = count, result.scale = Tensor({count}), result.shift = Tensor({count});
  for (std::size_t c = 0; c < channels; ++c) {
    const double factor = factors.scale.empty() ? 1 : factors.scale[c];
    const double own = norm.scale.defined() ? static_cast<double>(norm.scale.values<float>()[c]) : 1;
    const double shift = norm.shift.defined() ? static_cast<double>(norm.shift.values<float>()[c]) : 0;
    const double summand = factors.shift.empty() ? 0 : factors.shift[c];
    float &to_scale = result.scale.values<float>()[c], &to_shift = result.shift.values<float>()[c];
    to_scale = static_cast<float>(own * factor), to_shift = static_cast<float>(shift * factor + summand);
    if (!std::isfinite(to_scale) || !std::isfinite(to_shift)) return std::nullopt;
  }
  return result;
}

}  // namespace

Module::Absorbed absorb_into(const NormProblem& norm, const Shape& shape, const Module& next,
                             std::span<const Module::Operand> operands) {
  const auto made = [](const NormProblem& problem, const Shape& as) {
    return std::make_shared<Fixed<NormProblem>>(problem, as, DType::f32);
  };
  const auto* const view = dynamic_cast<const Reshape*>(&next);
  // An image of one pixel, which is stored alike either way, is left to those that know.
  const bool pixels = view != nullptr && (view->shape().rank() != 4 || view->shape()[2] * view->shape()[3] > 1);
  if (pixels && !norm.epilogue.reads_operands()) return {.module = made(norm, view->shape())};
  std::int64_t inner = 1;
  for (std::size_t trailing = 0; operands.size() > 1 && norm.epilogue.chain.empty() && trailing < shape.rank();
       ++trailing) {
    const std::int64_t channels = shape[-1 - static_cast<int>(trailing)];
    const auto factors = channels > 1 ? per_channel(next, operands, channels, trailing) : std::nullopt;
    if (const auto longer = factors ? with_factors(norm, *factors, inner) : std::nullopt)
      return {.module = made(*longer, shape), .parameters = true};
    inner *= channels;
  }
  NormProblem longer = norm;
  if (!append(longer.epilogue.chain, next, operands)) return {};
  return {.module = made(longer, shape)};
}

bool scale_codes(EightBitWeights& eight, std::span<const double> scale) {
  if (eight.bias.defined()) return false;
  if (scale.empty()) return true;
  if (std::ranges::all_of(scale, [&](double s) { return s == scale[0]; })) return false;
  std::vector<double> sizes;
  for (const double s : scale) sizes.push_back(std::abs(s));
  Tensor scaled = scaled_rows(eight.scale, sizes);
  if (!scaled.defined() || !std::ranges::all_of(scaled.values<float>(), [](float s) { return std::isnormal(s); }))
    return false;
  // Scales are positive: the codes of a channel with a negative factor change their signs, and -128 has none.
  EightBitWeights turned = eight;
  turned.scale = std::move(scaled), turned.weight = eight.weight.clone();
  if (eight.zero_point.defined()) turned.zero_point = eight.zero_point.clone();
  const std::span<std::int8_t> codes = turned.weight.values<std::int8_t>();
  const std::size_t row = codes.size() / scale.size();
  for (std::size_t c = 0; c < scale.size(); ++c) {
    if (scale[c] > 0) continue;
    for (std::int8_t& code : codes.subspan(c * row, row)) {
      if (code == -128) return false;
      code = static_cast<std::int8_t>(-code);
    }
    if (turned.zero_point.defined()) turned.zero_point.values<std::int32_t>()[c] *= -1;
  }
  eight = std::move(turned);
  return true;
}

Tensor scaled_and_shifted(const Tensor& bias, const PerChannel& factors) {
  const std::size_t channels = std::max(factors.scale.size(), factors.shift.size());
  Tensor result = bias.defined() ? bias.clone() : Tensor::zeros({static_cast<std::int64_t>(channels)});
  const std::span<float> values = result.values<float>();
  for (std::size_t c = 0; c < channels; ++c) {
    const double scaled = static_cast<double>(values[c]) * (factors.scale.empty() ? 1 : factors.scale[c]);
    values[c] = static_cast<float>(scaled + (factors.shift.empty() ? 0 : factors.shift[c]));
  }
  return result;
}

}  // namespace lamina::detail
