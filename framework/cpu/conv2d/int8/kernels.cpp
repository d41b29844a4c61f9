#include "lamina/cpu/conv2d/int8/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lamina/base/error.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/cpu/convert.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::cpu::int8 {
namespace {

using bf16::Engine;
using bf16::Layer;

/// The driver's elements are of two bytes: two channels are one. An odd number of them gets one more, of zero weights.
ConvGeometry halved(ConvGeometry g) {
  g.in_channels = (g.group_in_channels() + 1) / 2 * g.groups;
  return g;
}

bool widens(const ConvGeometry& g) { return g.in_channels % 2 != 0; }

struct Packed {
  Layer layer;
  Tensor weight;
  bf16::Int8End end;
};

/// Bytes in the order of the driver's numbers: [block of filters][step][pair][filter][4].
void pack_weights(const Layer& layer, const ConvGeometry& g, const std::int8_t* weight, std::int8_t* packed) {
  const ConvGeometry& half = layer.geometry;
  const int filters = layer.engine->filters, window = g.kernel_height * g.kernel_width;
  for (std::int64_t index = 0; index < std::int64_t{g.groups} * layer.filter_blocks; ++index) {
    const std::int64_t group = index / layer.filter_blocks, block = index % layer.filter_blocks;
    const auto there = static_cast<int>(std::min<std::int64_t>(filters, g.group_out_channels() - block * filters));
    const std::int8_t* const first_filter = weight + (group * g.group_out_channels() + block * filters) * g.reduction();
    std::int8_t* out = packed + 2 * index * layer.block_weights();
    for (int step = 0; step < layer.steps(); ++step) {
      const int tap = layer.tap_of(step), number = layer.block_of(step), first = layer.first_channel(number);
      const int pairs = step < layer.whole_steps() ? 16 : layer.last_pairs;
      for (int i = 0; i < std::min(2 * pairs, layer.channels - first); ++i) {
        const int pair = first + i;
        if (pair < number * bf16::step_channels) continue;  // the step before has it
        const int of = layer.folded > 0 ? pair % half.in_channels : pair;
        const int place = layer.folded > 0 ? tap * g.kernel_width + pair / half.in_channels : tap;
        for (int byte = 0; byte < 2; ++byte) {
          const std::int64_t channel = 2 * of + byte;
          if (channel >= g.group_in_channels()) continue;
          const std::int8_t* from = first_filter + channel * window + place;
          std::int8_t* to = out + std::int64_t{i / 2} * 4 * filters + i % 2 * 2 + byte;
          for (int f = 0; f < there; ++f, from += g.reduction(), to += 4) *to = *from;
        }
      }
      out += std::int64_t{pairs} * 4 * filters;
    }
  }
}

/// If multiply-adds near the exact ones have the formula's codes, all of them.
std::optional<SumLine> line_of(const TwoCodes& two, std::span<const std::uint8_t> formula) {  // by the two codes' bytes
  const auto flip_of = [](DType type) { return type == DType::i8 ? 128 : 0; };  // i8 is u8 with another upper bit
  const int flip = flip_of(two.second_type), zero = two.codes.zero_point;
  const auto bound = [&](float number) {
    return static_cast<float>(detail::code_of(number, two.codes, two.type) - zero);
  };
  const auto near = [](float number, int step) { return number * (1 + static_cast<float>(step) * 0x1p-23f); };
  const float own_step = two.first_codes.scale / two.codes.scale, other_step = two.second_codes.scale / two.codes.scale;
  if (std::max(own_step, other_step) > 1e6f) return std::nullopt;  // sums are to fit i32
  for (int attempt = 0; attempt < 27; ++attempt) {
    SumLine line = {.own = near(own_step, attempt % 3 - 1),
                    .other = near(other_step, attempt / 3 % 3 - 1),
                    .low = bound(two.low),
                    .high = bound(two.high)};
    line.rest = static_cast<float>(attempt / 9 - 1) * 0x1p-17f -
                line.other * static_cast<float>(two.second_codes.zero_point + flip);
    const auto same = [&](std::size_t at) {
      const int own = static_cast<int>(at / 256) ^ flip_of(two.first_type), other = static_cast<int>(at % 256) ^ flip;
      const float there = std::fma(static_cast<float>(own - flip_of(two.first_type) - two.first_codes.zero_point),
                                   line.own, std::fma(static_cast<float>(other), line.other, line.rest));
      const float code = std::nearbyint(std::clamp(there, line.low, line.high));
      return formula[at] == static_cast<std::uint8_t>(static_cast<int>(code) + zero);
    };
    std::size_t pair = 0;
    while (pair < formula.size() && same(pair)) ++pair;
    if (pair == formula.size()) return line;
  }
  return std::nullopt;
}

Packed packed(const ConvProblem& problem, const Engine& engine, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  Packed result = {Layer(halved(g), engine, {DType::bf16, Layout::nhwc}, p.threads), {}, {}};
  const Layer& layer = result.layer;
  result.weight = detail::packed(layer.packing("int8", g.in_channels), {problem.eight.weight},
                                 {2 * layer.packed_size()}, DType::i8, [&](Tensor& to) {
                                   std::memset(to.raw(), 0, to.bytes());
                                   pack_weights(layer, g, static_cast<const std::int8_t*>(problem.eight.weight.raw()),
                                                static_cast<std::int8_t*>(to.raw()));
                                 });
  const std::int32_t zero = p.input().quantization.zero_point + engine.shift;
  const auto size = static_cast<std::size_t>(layer.bias_size()), group_size = size / static_cast<std::size_t>(g.groups);
  const detail::ChannelEnd end = detail::channel_end(problem, p, zero);
  bf16::Int8End& packed_end = result.end;
  packed_end = {.end = end.end, .kernel = &best_kernel(codes_kernels(), p.device)};
  if (p.inputs.size() > 1) {
    const detail::CodeSteps steps = *detail::code_steps(problem.epilogue.chain);
    const View &added = p.inputs[1], &output = p.output();
    TwoCodes& two = packed_end.two.emplace();
    two.low = steps.bounds.low, two.high = steps.bounds.high;
    two.first_type = steps.own->type, two.second_type = added.format.dtype, two.type = output.format.dtype;
    two.first_codes = steps.own->codes, two.second_codes = added.quantization, two.codes = output.quantization;
    two.line = line_of(two, detail::table_of_sums(problem, p));
  }
  std::vector<std::int32_t> offset(size);
  std::vector<float> factor(size), bias(size);
  for (std::size_t c = 0; c < end.bias.size(); ++c) {
    const auto filters = static_cast<std::size_t>(g.group_out_channels());
    const std::size_t at = c / filters * group_size + c % filters;
    offset[at] = end.bias[c], factor[at] = end.factor[c], bias[at] = end.float_bias[c];
  }
  packed_end.offset = detail::constant(offset), packed_end.factor = detail::constant(factor);
  packed_end.bias = detail::constant(bias);
  packed_end.plain = end.end.codes && (!packed_end.two || packed_end.two->line) && std::ranges::max(end.factor) < 1;
  return result;
}

/// Pixels to such with one channel more, of zeros. `plane`: from channel to channel.
void widen(const std::uint8_t* from, std::int64_t pixels, std::int64_t pixel, std::int64_t plane, int channels,
           std::uint8_t* to) {
  if (channels == 3) {
    const auto words = [=](auto step) {  // compilers vectorise those of planes
      for (std::int64_t i = 0; i < pixels; ++i) {
        const std::uint8_t* const x = from + i * step;
        const std::uint32_t word = x[0] | std::uint32_t{x[plane]} << 8 | std::uint32_t{x[2 * plane]} << 16;
        std::memcpy(to + 4 * i, &word, 4);
      }
    };
    return pixel == 1 ? words(std::integral_constant<std::int64_t, 1>()) : words(pixel);
  }
  for (std::int64_t i = 0; i < pixels; ++i) {
    for (int c = 0; c <= channels; ++c) *to++ = c < channels ? from[i * pixel + c * plane] : std::uint8_t{0};
  }
}

/// Codes that are added to others, which lie as the sums of both.
bool operand_fits(const detail::CodeSteps& steps, const Preparation& p) {
  const View& other = p.inputs.back();
  return steps.operand == nullptr ||
         (detail::adds_codes(steps, p) &&
          std::max(steps.own->codes.scale, other.quantization.scale) < 1e15f &&  // as TwoCodes
          other.format.layout == Layout::nhwc && other.pixel_pitch() == p.output().pixel_pitch());
}

/// Sums that are a result have one layout, that of all whole numbers: nchw.
bool turns(const View& output) {
  return output.format.dtype == DType::i32 && !detail::same_order(output.shape, output.format.layout, Layout::nhwc);
}

}  // namespace

bool takes(Unit unit, const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  if (!detail::is_eight_bits(problem, p) || !operand_fits(*detail::code_steps(problem.epilogue.chain), p)) return false;
  if (!bf16::has_unit(p.device, unit, p.input().format.dtype)) return false;
  if (g.group_in_channels() % 2 != 0 && g.groups > 1) return false;
  const View& input = p.input();
  if (input.is_slice() && (input.channels % 4 != 0 || input.alignment % 4 != 0)) return false;
  // The images that a network is given are nchw.
  const bool planes = widens(g) && input.format.layout == Layout::nchw && !input.is_slice();
  return (planes || input.format.layout == Layout::nhwc) &&
         (p.output().format.layout == Layout::nhwc || turns(p.output()));
}

std::unique_ptr<Operator> prepare_with(const ConvProblem& problem, const Preparation& p, const Engine& engine) {
  const ConvGeometry& g = problem.geometry;
  const Packed parts = packed(problem, engine, p);
  const bool wider = widens(g), planes = p.input().format.layout == Layout::nchw;
  const std::size_t own = parts.layer.workspace(p.threads);
  const bool turned = turns(p.output());
  const std::size_t sums = turned ? static_cast<std::size_t>(g.output_size()) * sizeof(std::int32_t) : 0;
  const std::size_t wide = wider ? static_cast<std::size_t>(g.batch * g.in_pixels() * (g.in_channels + 1)) : 0;
  return detail::make_operator(
      detail::concat("int8: ", engine.what, ", ", engine.positions, " pixels x ", engine.filters, " filters",
                     parts.layer.direct ? ", input where it lies" : "", ", ", name(engine.set)),
      {.workspace = own + sums + wide},
      [parts, g, own, sums, turned, wider, planes, from = p.input().pixel_pitch(), to = p.output().pixel_pitch(),
       zero = p.input().quantization.zero_point](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                 const Execution& execution) {
        auto* const workspace = static_cast<std::byte*>(execution.workspace);
        const void* input = inputs[0].raw();
        if (wider) {
          auto* const pixels = reinterpret_cast<std::uint8_t*>(workspace + own + sums);
          const std::int64_t plane = planes ? g.in_pixels() : 1, pixel = planes ? 1 : from, width = g.in_width;
          execution.pool->parallel_for(g.batch * g.in_height, [&](std::int64_t row, int) {
            const std::int64_t skipped = planes ? row / g.in_height * (g.in_channels - 1) * plane : 0;
            widen(static_cast<const std::uint8_t*>(inputs[0].raw()) + row * width * pixel + skipped, width, pixel,
                  plane, g.in_channels, pixels + row * width * (g.in_channels + 1));
          });
          input = pixels;
        }
        convolve(parts.layer,
                 {.input = input,
                  .weight = static_cast<const std::uint16_t*>(parts.weight.raw()),
                  .residual = inputs.size() > 1 ? inputs[1].raw() : nullptr,
                  .output = turned ? workspace + own : outputs[0].raw(),
                  .output_type = outputs[0].dtype(),
                  .input_pitch = (wider ? g.in_channels + 1 : from) / 2,
                  .output_pitch = to,
                  .padding = static_cast<std::uint8_t>(zero),
                  .int8_end = &parts.end},
                 {}, *execution.pool, workspace);
        if (turned) {
          constexpr DType type = DType::i32;
          convert({g.batch, g.out_channels, g.out_pixels()}, {type, Layout::nhwc}, workspace + own,
                  {type, Layout::nchw}, outputs[0].raw(), *execution.pool);
        }
      });
}

std::unique_ptr<Operator> prepare(Unit unit, const ConvProblem& problem, const Preparation& p) {
  return prepare_with(problem, p, bf16::engine_of(unit, p.input().format.dtype, p.device));
}

}  // namespace lamina::cpu::int8
