#include "lamina/cpu/conv2d/bf16/kernels.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cpu::bf16 {
namespace {

bool is_narrow(const View& view) { return view.format.dtype == DType::bf16 || view.format.dtype == DType::f32; }

std::string description(const Layer& layer) {
  const Engine& engine = *layer.engine;
  return detail::concat("bf16: ", engine.what, ", ", engine.positions, " pixels x ", engine.filters, " filters",
                        layer.direct       ? ", input where it lies"
                        : layer.scaled     ? ", input scaled on the way"
                        : layer.folded > 1 ? ", windows as channels"
                        : layer.folded > 0 ? ", rows of taps as channels"
                        : layer.apart      ? ", columns with other taps apart"
                                           : "",
                        ", ", name(engine.set));
}

}  // namespace

PackedLayer packed(const Layer& layer, const Tensor& weight, const Tensor& bias) {
  const auto pack = [&](Tensor& to) {
    pack_weights(layer, detail::floats(weight), static_cast<std::uint16_t*>(to.raw()));
  };
  Tensor padded(Shape{layer.bias_size()});
  pack_bias(layer, detail::floats(bias), detail::floats(padded));
  return {detail::packed(layer.packing("bf16", layer.geometry.in_channels), {weight}, {layer.packed_size()},
                         DType::bf16, pack),
          detail::constant(padded)};
}

bool takes(Unit unit, const ConvProblem& problem, const Preparation& p) {
  if (!has_unit(p.device, unit, DType::bf16)) return false;
  if (p.precision != Precision::bf16 || !problem.epilogue.is_residual(problem.scaled() ? 2 : 1)) return false;
  if (!std::ranges::all_of(p.inputs, is_narrow) || !is_narrow(p.output())) return false;
  if (p.output().format.layout != Layout::nhwc) return false;
  // Pairs of channels are read at once.
  const View& input = p.input();
  if (input.is_slice() && (input.format != Format{DType::bf16, Layout::nhwc} || input.alignment % 4 != 0)) return false;
  const auto whole = [](const View& view) {
    return view.format == Format{DType::bf16, Layout::nhwc} && !view.is_slice();
  };
  if (problem.scaled() && !(detail::is_of_pixels(problem.geometry) && whole(input) && whole(p.inputs[1]))) return false;
  const auto like_output = [&](const View& view) {
    return view.format == p.output().format && view.channels == p.output().channels;
  };
  return !problem.epilogue.reads_operands() || (p.inputs.size() > 1 && like_output(p.inputs.back()));
}

namespace {

/// Some neighbouring channels of a convolution, as one of their own.
struct Part {
  ConvProblem problem;
  std::int64_t first = 0;
};

/// Groups of fewer than 32 channels, several of them as one of 32, or of the channels that are left, with zeros
/// between: a tile then has 32 channels and 32 filters in place of a few. The sums are the same bit for bit, a zero's
/// products being zeros, unless a number is infinite or NaN, which times 0 is NaN: those inputs are to be computed
/// group by group. Nothing if the problem's groups are not of a divisor of 32 channels and as many filters.
std::vector<Part> joined(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const int channels = g.group_in_channels(), whole = g.in_channels / step_channels * step_channels;
  if (g.groups == 1 || channels != g.group_out_channels() || whole == 0) return {};
  if (channels >= step_channels || step_channels % channels != 0) return {};
  const std::int64_t filter = std::int64_t{channels} * g.kernel_height * g.kernel_width;
  const auto part = [&](int first, int count) {
    Part result = {problem, first};
    ConvGeometry& of = result.problem.geometry;
    of.in_channels = of.out_channels = count;
    of.groups = detail::ceil_div(count, step_channels);
    const int width = count / of.groups;
    Tensor& weight = result.problem.weight = Tensor::zeros({count, width, g.kernel_height, g.kernel_width});
    const float* const from = problem.weight.values<float>().data() + first * filter;
    float* const to = weight.values<float>().data();
    for (int f = 0; f < count; ++f) {
      std::copy_n(from + f * filter, filter, to + (f * (width / channels) + f % width / channels) * filter);
    }
    if (problem.bias.defined()) {
      const float* const bias = problem.bias.values<float>().data() + first;
      result.problem.bias = Tensor::from(std::vector<float>(bias, bias + count), {count});
    }
    return result;
  };
  std::vector<Part> result = {part(0, whole)};
  if (whole < g.in_channels) result.push_back(part(whole, g.in_channels - whole));
  return result;
}

/// Whether the channels of all pixels, `pitch` elements apart, are finite.
bool all_finite(const Moves& moves, const bfloat16* input, std::int64_t pixels, std::int64_t channels,
                std::int64_t pitch, ThreadPool& pool) {
  const std::int64_t tasks = std::min<std::int64_t>(pixels, 4 * pool.threads());
  std::atomic<bool> result = true;
  pool.parallel_for(tasks, [&](std::int64_t task, int) {
    const std::int64_t first = pixels * task / tasks, count = pixels * (task + 1) / tasks - first;
    bool finite = true;
    if (pitch == channels) {
      finite = moves.finite(input + first * pitch, count * channels);
    } else {
      for (std::int64_t i = 0; i < count && finite; ++i) finite = moves.finite(input + (first + i) * pitch, channels);
    }
    if (!finite) result = false;
  });
  return result;
}

struct Packed {
  Layer layer;
  std::int64_t first;  // of its channels
  PackedLayer parameters;
};

std::vector<Packed> packed(std::span<const Part> parts, Format input, const Engine& engine, int threads, bool folds) {
  std::vector<Packed> result;
  for (const auto& [problem, first] : parts) {
    for (Layer& layer : layers_of(problem.geometry, engine, input, threads, problem.scaled(), folds)) {
      PackedLayer parameters = packed(layer, problem.weight, problem.bias);
      result.push_back({std::move(layer), first, std::move(parameters)});
    }
  }
  return result;
}

}  // namespace

std::unique_ptr<Operator> prepare(Unit unit, const ConvProblem& problem, const Preparation& p) {
  const Engine& engine = engine_of(unit, DType::bf16, p.device);
  const Format input = p.input().format;
  // The last of them is for every input, the first for finite numbers.
  std::vector<std::vector<Packed>> ways;
  if (const auto wider = joined(problem); !wider.empty() && input == Format{DType::bf16, Layout::nhwc}) {
    ways.push_back(packed(wider, input, engine, p.threads, false));
  }
  ways.push_back(packed(std::vector<Part>{{problem}}, input, engine, p.threads, true));
  detail::OperatorTraits memory;
  for (const std::vector<Packed>& way : ways) {
    for (const Packed& part : way) {
      memory.workspace = std::max(memory.workspace, part.layer.workspace(p.threads));
    }
  }
  return detail::make_operator(
      description(ways[0][0].layer) + (ways.size() > 1 ? ", groups joined" : ""), memory,
      [ways, output = p.output().format.dtype, g = problem.geometry,
       epilogue = row_epilogue(problem.epilogue, p.device), adds = problem.epilogue.reads_operands(),
       from = p.input().channels, to = p.output().channels](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                            const Execution& execution) {
        const bool any =
            ways.size() == 1 ||
            all_finite(*ways[0][0].layer.moves, static_cast<const bfloat16*>(inputs[0].raw()), g.batch * g.in_pixels(),
                       g.in_channels, from == 0 ? g.in_channels : from, *execution.pool);
        for (const Packed& part : any ? ways.front() : ways.back()) {
          const bool whole = part.layer.geometry.in_channels == g.in_channels;
          const auto skipped = [&](DType dtype) { return part.first * static_cast<std::int64_t>(size_of(dtype)); };
          convolve(part.layer,
                   {.input = static_cast<const std::byte*>(inputs[0].raw()) + skipped(DType::bf16),
                    .weight = static_cast<const std::uint16_t*>(part.parameters.weight.raw()),
                    .bias = detail::floats(part.parameters.bias),
                    .residual = adds ? static_cast<const std::byte*>(inputs.back().raw()) + skipped(output) : nullptr,
                    .scale = part.layer.scaled ? static_cast<const bfloat16*>(inputs[1].raw()) : nullptr,
                    .output = static_cast<std::byte*>(outputs[0].raw()) + skipped(output),
                    .output_type = output,
                    .input_pitch = from == 0 && !whole ? g.in_channels : from,
                    .output_pitch = to == 0 && !whole ? g.out_channels : to},
                   epilogue, *execution.pool, static_cast<std::byte*>(execution.workspace));
        }
      });
}

}  // namespace lamina::cpu::bf16
