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
/// Of a bias that was multiplied by its scale and by a factor, the same factor being in the weights' scale.
constexpr double most_off = 0x1p-21;

View rounded_by(const PointwiseStep& step, View view) {
  view.format.dtype = step.type, view.quantization = step.codes;
  return view;
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

std::optional<CodeSteps> code_steps(const PointwiseChain& chain) {
  CodeSteps result;
  auto step = chain.begin();
  const auto next_is = [&](Pointwise function) { return step != chain.end() && step->function == function; };
  if (next_is(Pointwise::to_codes)) result.own = &*step++;
  const bool joins = (next_is(Pointwise::add) || next_is(Pointwise::mul)) && step->operand > 0 && step->second < 0;
  if (result.own != nullptr && joins) result.operand = &*step++;
  const auto bounds = step == chain.end() ? std::nullopt : clamp_of(*step);
  if (bounds && (result.own == nullptr || result.operand != nullptr)) result.bounds = *bounds, ++step;
  if (result.operand != nullptr && next_is(Pointwise::to_codes)) result.again = &*step++;
  if (result.own != nullptr && next_is(Pointwise::look_up)) result.table = step++->table;
  if (step != chain.end() || (result.operand != nullptr && !result.table != !result.again)) return std::nullopt;
  return result;
}

void set_bias(EightBitWeights& eight, const Tensor& bias, float input_scale) {
  eight.bias = bias;
  eight.bias_scale = Tensor(eight.scale.shape());
  for (std::size_t c = 0; c < eight.scale.values<float>().size(); ++c)
    eight.bias_scale.values<float>()[c] = input_scale * eight.scale.values<float>()[c];
}

bool set_whole_bias(EightBitWeights& eight, const Tensor& bias, float input_scale) {
  Tensor whole(bias.shape(), DType::i32);
  for (std::size_t c = 0; c < bias.values<float>().size(); ++c) {
    const double unit = static_cast<double>(input_scale * eight.scale.values<float>()[c]);
    const double value = static_cast<double>(bias.values<float>()[c]), steps = std::nearbyint(value / unit);
    const bool is_whole = std::abs(value - steps * unit) <= most_off * std::abs(value);
    if (!is_whole || !(std::abs(steps) <= std::numeric_limits<std::int32_t>::max())) return false;
    whole.values<std::int32_t>()[c] = static_cast<std::int32_t>(steps);
  }
  set_bias(eight, whole, input_scale);
  return true;
}

View multiplied(const ConvProblem& problem, const Preparation& p) {
  return problem.prologue.empty() ? p.input() : rounded_by(problem.prologue.back(), p.input());
}

View rounded_first(const ConvProblem& problem, const Preparation& p) {
  return problem.epilogue.rounds() ? rounded_by(problem.epilogue.chain[0], p.output()) : p.output();
}

bool adds_codes(const CodeSteps& steps, const Preparation& p) {
  if (steps.operand == nullptr || steps.operand->function != Pointwise::add || steps.again != nullptr) return false;
  const View& other = p.inputs[static_cast<std::size_t>(steps.operand->operand)];
  return is_code(other) && other.shape == p.output().shape;
}

bool is_eight_bits(const ConvProblem& problem, const Preparation& p) {
  const EightBitWeights& eight = problem.eight;
  const PointwiseChain& chain = problem.epilogue.chain;
  const auto steps = code_steps(chain);
  const View input = multiplied(problem, p), &output = p.output();
  const auto inputs = static_cast<std::size_t>(std::max(inputs_of(chain), inputs_of(problem.prologue)));
  if (!eight.defined() || !steps || p.inputs.size() != inputs || !is_code(input)) return false;
  if (problem.scaled() && input.format != p.input().format) return false;
  if (problem.geometry.reduction() > (eight.zero_point.defined() ? most_with_zero_points : most_terms)) return false;
  if (eight.whole) return output.format.dtype == DType::i32 && chain.empty() && !problem.epilogue.pool;
  // Codes that are looked up or joined with an operand give codes; by themselves they are read as numbers.
  const bool alone = steps->operand == nullptr && steps->table == nullptr;
  const bool floats = !output.quantization.defined() && is_activation(output.format.dtype);
  if (!(alone && floats) && !(is_code(output) && (!alone || steps->own == nullptr))) return false;
  const bool float_bias = problem.bias.defined() && !eight.bias.defined();
  if (float_bias && steps->own != nullptr && (alone || steps->operand != nullptr)) return false;
  if (steps->operand != nullptr && !adds_codes(*steps, p)) {
    const View& numbers = p.inputs[static_cast<std::size_t>(steps->operand->operand)];
    if (numbers.format.dtype != DType::f32 || numbers.shape.numel() != problem.geometry.out_channels ||
        steps->bounds != Bounds())
      return false;
  }
  const std::int64_t room = std::numeric_limits<std::int32_t>::max() -
                            problem.geometry.reduction() * 255 * (eight.zero_point.defined() ? 255 : 128);
  for (std::size_t c = 0; eight.bias.defined() && c < eight.scale.values<float>().size(); ++c) {  // 0 has any scale
    const std::int64_t bias = eight.bias.values<std::int32_t>()[c];
    if (std::abs(bias) > room) return false;
    const float unit = input.quantization.scale * eight.scale.values<float>()[c];
    if (bias != 0 && eight.bias_scale.values<float>()[c] != unit) return false;
  }
  return true;
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

std::vector<std::uint8_t> table_of_sums(const ConvProblem& problem, const Preparation& p) {
  const CodeSteps steps = *code_steps(problem.epilogue.chain);
  const View &other = p.inputs[static_cast<std::size_t>(steps.operand->operand)], &output = p.output();
  const std::vector<float> others = numbers_of(other.format.dtype, other.quantization);
  std::vector<std::uint8_t> table;
  for (const float a : numbers_of(steps.own->type, steps.own->codes)) {
    for (const float b : others) {
      const float sum = std::clamp(a + b, steps.bounds.low, steps.bounds.high);
      table.push_back(static_cast<std::uint8_t>(code_of(sum, output.quantization, output.format.dtype)));
    }
  }
  return table;
}

ChannelEnd channel_end(const ConvProblem& problem, const Preparation& p, std::int32_t zero) {
  const EightBitWeights& eight = problem.eight;
  const auto channels = static_cast<std::size_t>(problem.geometry.out_channels);
  const auto terms = static_cast<std::size_t>(problem.geometry.reduction());
  const View output = rounded_first(problem, p);
  const float input_scale = multiplied(problem, p).quantization.scale;
  const bool rounds = problem.epilogue.rounds(), read = rounds && !is_code(p.output());
  const Bounds bounds = rounds ? Bounds() : code_steps(problem.epilogue.chain)->bounds;
  ChannelEnd result = {.end = {.type = read ? p.output().format.dtype : output.format.dtype,
                               .read = read,
                               .quantization = output.quantization},
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
    result.factor[c] = input_scale * eight.scale.values<float>()[c];
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
