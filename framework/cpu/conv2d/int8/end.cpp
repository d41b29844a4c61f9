#include "lamina/cpu/conv2d/int8/end.h"

#include <numeric>

#include "lamina/cpu/conv2d/row_epilogue.h"

namespace lamina::cpu::int8 {
namespace {

/// Products that cannot leave i32 together: of 255 and 128, of 255 and 255.
constexpr std::int64_t most_terms = 65'793, most_with_zero_points = 33'025;

bool is_code(const View& view) {
  return view.quantization.defined() && (view.format.dtype == DType::u8 || view.format.dtype == DType::i8);
}

float scale_of(const EightBitWeights& eight, const Preparation& p, std::size_t channel) {
  return p.input().quantization.scale * eight.scale.values<float>()[channel];
}

}  // namespace

bool is_computable(const ConvProblem& problem, const Preparation& p) {
  const EightBitWeights& eight = problem.eight;
  if (!eight.defined() || problem.scaled || p.inputs.size() != 1 || !is_code(p.input())) return false;
  if (problem.geometry.reduction() > (eight.zero_point.defined() ? most_with_zero_points : most_terms)) return false;
  const View& output = p.output();
  if (eight.whole) return output.format.dtype == DType::i32 && problem.epilogue.chain.empty() && !problem.epilogue.pool;
  const bool floats =
      !output.quantization.defined() && (output.format.dtype == DType::f32 || output.format.dtype == DType::bf16);
  if (!floats && !is_code(output)) return false;
  if (!problem.epilogue.is_residual() || problem.epilogue.reads_operands()) return false;
  if (!row_epilogue(problem.epilogue, p.device).rest.empty()) return false;
  for (std::size_t c = 0; eight.bias.defined() && c < eight.scale.values<float>().size(); ++c) {
    if (eight.bias_scale.values<float>()[c] != scale_of(eight, p, c)) return false;
  }
  return true;
}

ChannelEnd channel_end(const ConvProblem& problem, const Preparation& p) {
  const EightBitWeights& eight = problem.eight;
  const RowEpilogue epilogue = row_epilogue(problem.epilogue, p.device);
  const auto channels = static_cast<std::size_t>(problem.geometry.out_channels);
  const View& output = p.output();
  ChannelEnd result = {.end = {.type = output.format.dtype, .quantization = output.quantization},
                       .bias = std::vector<std::int32_t>(channels),
                       .factor = std::vector<float>(channels, 1.0f),
                       .float_bias = std::vector<float>(channels)};
  SumsEnd& end = result.end;
  const bool float_bias = problem.bias.defined() && !eight.bias.defined();
  end.codes = output.quantization.defined() && !float_bias;
  end.low = epilogue.low, end.high = epilogue.high;
  if (end.codes) {
    const auto less = [&](float bound) {
      return static_cast<float>(code_of(bound, output.quantization, end.type) - output.quantization.zero_point);
    };
    end.low = less(epilogue.low), end.high = less(epilogue.high);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    if (eight.bias.defined()) result.bias[c] = eight.bias.values<std::int32_t>()[c];
    if (eight.whole) continue;
    result.factor[c] = scale_of(eight, p, c);
    if (end.codes) result.factor[c] /= output.quantization.scale;
    if (float_bias) result.float_bias[c] = problem.bias.values<float>()[c];
  }
  return result;
}

/// A sum may leave i32 on its way, as long as the result does not.
std::int32_t offset_of(const ChannelEnd& end, const ConvProblem& problem, std::size_t channel, std::int32_t zero) {
  const auto terms = static_cast<std::size_t>(problem.geometry.reduction());
  const auto filter = problem.eight.weight.values<std::int8_t>().subspan(channel * terms, terms);
  const auto sum = static_cast<std::uint32_t>(std::accumulate(filter.begin(), filter.end(), std::int32_t{0}));
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(end.bias[channel]) -
                                   static_cast<std::uint32_t>(zero) * sum);
}

}  // namespace lamina::cpu::int8
