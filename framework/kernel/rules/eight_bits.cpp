#include "lamina/kernel/rules/eight_bits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/linear_as_convolution.h"

namespace lamina::detail {
namespace {

/// Products that cannot leave i32 together: of 255 and 128, of 255 and 255.
constexpr std::int64_t most_terms = 65'793, most_with_zero_points = 33'025;

float scale_of(const EightBitWeights& eight, const Preparation& p, std::size_t channel) {
  return p.input().quantization.scale * eight.scale.values<float>()[channel];
}

}  // namespace

std::vector<float> numbers_of(DType type, const Quantization& codes) {
  std::vector<float> result(256);
  for (int byte = 0; byte < 256; ++byte) {
    const int code = type == DType::u8 ? byte : static_cast<std::int8_t>(byte);
    result[static_cast<std::size_t>(byte)] = static_cast<float>(code - codes.zero_point) * codes.scale;
  }
  return result;
}

std::int32_t code_of(float value, const Quantization& codes, DType type) {
  const float low = static_cast<float>((type == DType::u8 ? 0 : -128) - codes.zero_point);
  const float rounded = std::rint(value / codes.scale);
  const float there = rounded > low ? rounded : low;
  return static_cast<std::int32_t>(std::min(there, low + 255)) + codes.zero_point;
}

bool is_eight_bits(const ConvProblem& problem, const Preparation& p) {
  const EightBitWeights& eight = problem.eight;
  if (!eight.defined() || eight.table || p.inputs.size() != 1 || !is_code(p.input())) return false;
  if (problem.geometry.reduction() > (eight.zero_point.defined() ? most_with_zero_points : most_terms)) return false;
  const View& output = p.output();
  if (eight.whole) return output.format.dtype == DType::i32 && problem.epilogue.chain.empty() && !problem.epilogue.pool;
  const bool floats = !output.quantization.defined() && is_activation(output.format.dtype);
  if (!floats && (!is_code(output) || eight.codes.defined())) return false;
  const bool float_bias = problem.bias.defined() && !eight.bias.defined();
  if (eight.codes.defined() && (float_bias || !problem.epilogue.chain.empty())) return false;
  if (!only_clamps(problem.epilogue)) return false;
  const std::int64_t room = std::numeric_limits<std::int32_t>::max() -
                            problem.geometry.reduction() * 255 * (eight.zero_point.defined() ? 255 : 128);
  for (std::size_t c = 0; eight.bias.defined() && c < eight.scale.values<float>().size(); ++c) {  // 0 has any scale
    const std::int64_t bias = eight.bias.values<std::int32_t>()[c];
    if (std::abs(bias) > room) return false;
    if (bias != 0 && eight.bias_scale.values<float>()[c] != scale_of(eight, p, c)) return false;
  }
  return true;
}

CodesAlone::CodesAlone(const ConvProblem& whole, const Preparation& p)
    : problem(whole), output(p.output()), preparation(p) {
  preparation.outputs = {&output, 1};
  if (!whole.eight.codes.defined() || !is_code(output)) return;
  problem.eight.codes = {}, problem.eight.table = {}, problem.epilogue = {};
  output.format.dtype = whole.eight.codes_type, output.quantization = whole.eight.codes;
  preparation.inputs = p.inputs.first(1);
}

OfProduct::OfProduct(const ConvProblem& scaled, const Preparation& p)
    : problem(scaled), inputs(p.inputs.begin(), p.inputs.end()), preparation(p) {
  if (scaled.scaled) {
    inputs[0].quantization = scaled.eight.product;
    inputs.erase(inputs.begin() + 1);
    problem.scaled = false;
    for (PointwiseStep& step : problem.epilogue.chain) step.operand -= step.operand > 0;
  }
  preparation.inputs = inputs;
}

std::optional<std::vector<float>> product_slopes(DType type, const Quantization& image, const Quantization& factors,
                                                 const Quantization& product) {
  constexpr double whole = 0x1.8p52, most = 0x1p14;  // to add and take off the first rounds to a whole number
  const int first = type == DType::u8 ? 0 : -128;
  const double low = first - product.zero_point, high = low + 255;
  std::vector<float> slopes;
  for (const float factor : numbers_of(type, factors)) {
    std::array<double, 256> code;
    double least = -most, largest = most;  // of the slopes that round to these
    const auto x = [&](std::size_t i) { return static_cast<double>(i) + first - image.zero_point; };
    for (std::size_t i = 0; i < code.size(); ++i) {
      code[i] = code_of(static_cast<float>(x(i)) * image.scale * factor, product, type) - product.zero_point;
      if (x(i) == 0) continue;
      const double below = code[i] == low ? -most : code[i] - 0.5, above = code[i] == high ? most : code[i] + 0.5;
      least = std::max(least, (x(i) > 0 ? below : above) / x(i));
      largest = std::min(largest, (x(i) > 0 ? above : below) / x(i));
    }
    slopes.push_back(static_cast<float>((least + largest) / 2));
    for (std::size_t i = 0; i < code.size(); ++i) {
      const double q = x(i) * slopes.back();
      if (!(std::abs(q) < most) || std::clamp(q + whole - whole, low, high) != code[i]) return std::nullopt;
    }
  }
  return slopes;
}

bool is_eight_bits_and_table(const ConvProblem& problem, const Preparation& p) {
  if (problem.eight.table == nullptr) return is_eight_bits(problem, p);
  const CodesAlone alone(problem, p);
  return p.inputs.size() == 1 && is_code(p.output()) && !problem.epilogue.pool && problem.epilogue.chain.empty() &&
         is_eight_bits(alone.problem, alone.preparation);
}

bool is_sum_of_eight_bits(const ConvProblem& problem, const Preparation& p) {
  const PointwiseChain& chain = problem.epilogue.chain;
  if (!problem.eight.codes.defined() || problem.eight.table || p.inputs.size() != 2 || !is_code(p.inputs[1]) ||
      !is_code(p.output()) || problem.epilogue.pool || chain.empty() || chain.size() > 2 ||
      p.inputs[1].shape != p.output().shape || (problem.bias.defined() && !problem.eight.bias.defined())) {
    return false;
  }
  if (chain[0] != PointwiseStep{.function = Pointwise::add, .operand = 1}) return false;
  if (chain.size() == 2 && !clamp_of(chain[1])) return false;
  const CodesAlone alone(problem, p);
  return is_eight_bits(alone.problem, alone.preparation);
}

std::vector<std::uint8_t> table_of_sums(const ConvProblem& problem, const Preparation& p) {
  const View &other = p.inputs[1], &output = p.output();
  const PointwiseChain& chain = problem.epilogue.chain;
  const Bounds bounds = chain.size() == 1 ? Bounds() : *clamp_of(chain[1]);
  const std::vector<float> others = numbers_of(other.format.dtype, other.quantization);
  std::vector<std::uint8_t> table;
  for (const float a : numbers_of(problem.eight.codes_type, problem.eight.codes)) {
    for (const float b : others) {
      const float sum = std::clamp(a + b, bounds.low, bounds.high);
      table.push_back(static_cast<std::uint8_t>(code_of(sum, output.quantization, output.format.dtype)));
    }
  }
  return table;
}

ChannelEnd channel_end(const ConvProblem& problem, const Preparation& p, std::int32_t zero) {
  const EightBitWeights& eight = problem.eight;
  const Bounds bounds = problem.epilogue.chain.empty() ? Bounds() : *clamp_of(problem.epilogue.chain.front());
  const auto channels = static_cast<std::size_t>(problem.geometry.out_channels);
  const auto terms = static_cast<std::size_t>(problem.geometry.reduction());
  View output = p.output();
  const DType type = output.format.dtype;
  const bool read = eight.codes.defined();
  if (read) output.format.dtype = eight.codes_type, output.quantization = eight.codes;
  ChannelEnd result = {.end = {.type = type, .read = read, .quantization = output.quantization},
                       .bias = std::vector<std::int32_t>(channels),
                       .factor = std::vector<float>(channels, 1.0f),
                       .float_bias = std::vector<float>(channels)};
  SumsEnd& end = result.end;
  const bool float_bias = problem.bias.defined() && !eight.bias.defined();
  end.codes = output.quantization.defined() && !float_bias && !read;
  end.low = bounds.low, end.high = bounds.high;
  if (end.codes || read) {
    const auto less = [&](float bound) {
      return static_cast<float>(code_of(bound, output.quantization, output.format.dtype) -
                                output.quantization.zero_point);
    };
    end.low = less(bounds.low), end.high = less(bounds.high);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    // A sum may leave i32 on its way, as long as the result does not.
    auto bias = static_cast<std::uint32_t>(eight.bias.defined() ? eight.bias.values<std::int32_t>()[c] : 0);
    const auto filter = eight.weight.values<std::int8_t>().subspan(c * terms, terms);
    bias -= static_cast<std::uint32_t>(zero) *
            static_cast<std::uint32_t>(std::accumulate(filter.begin(), filter.end(), std::int32_t{0}));
    result.bias[c] = static_cast<std::int32_t>(bias);
    if (eight.whole) continue;
    result.factor[c] = scale_of(eight, p, c);
    if (end.codes || read) result.factor[c] /= output.quantization.scale;
    if (float_bias) result.float_bias[c] = problem.bias.values<float>()[c];
  }
  return result;
}

bool is_code_table(const PointwiseProblem& problem, const Preparation& p) {
  return p.inputs.size() == 1 && is_code(p.input()) && is_code(p.output()) && p.input().shape == p.output().shape &&
         std::ranges::all_of(problem.chain, is_alone);
}

bool is_eight_bits(const LinearProblem& problem, const Preparation& p) {
  if (!are_rows_in_order(p)) return false;
  const LinearAsConvolution conv(problem, p);
  return is_eight_bits(conv.problem, conv.preparation);
}

}  // namespace lamina::detail
