// The convolutions of a CPU: the table.

#include "lamina/cpu/conv2d/conv2d.h"

#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/bf16/kernels.h"
#include "lamina/cpu/conv2d/channels_last.h"
#include "lamina/cpu/conv2d/int8/kernels.h"
#include "lamina/cpu/conv2d/lanes/lanes.h"
#include "lamina/cpu/conv2d/pair.h"
#include "lamina/cpu/conv2d/preference.h"
#include "lamina/cpu/convert.h"
#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/squeeze_excite.h"
#include "lamina/tensor/constants.h"

namespace lamina {
namespace {

using cpu::bf16::Unit;
using detail::floats;
using detail::make_operator;

bool takes(const ConvProblem&, const Preparation& p) { return p.is_plain() && p.precision == Precision::fp32; }

ConvProblem with_constants(ConvProblem problem) {
  problem.weight = detail::constant(problem.weight), problem.bias = detail::constant(problem.bias);
  return problem;
}

cpu::Conv2dPointers pointers(const ConvProblem& problem, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  return {.input = floats(inputs[0]),
          .weight = floats(problem.weight),
          .bias = floats(problem.bias),
          .output = floats(outputs[0]),
          .relu = problem.epilogue.relu()};
}

/// Channels last to channels last, with whatever else of the epilogue is done to single elements.
bool takes_channels_last(const ConvProblem& problem, const Preparation& p) {
  constexpr Format format = {DType::f32, Layout::nhwc};
  const auto stored = [&](const View& view) { return view.format == format; };
  return p.precision == Precision::fp32 && problem.epilogue.is_residual(problem.scaled() ? 2 : 1) &&
         std::ranges::all_of(p.inputs, stored) && stored(p.output()) &&
         (!problem.scaled() || !p.inputs[1].is_slice()) &&
         (!problem.epilogue.reads_operands() || p.inputs.back().channels == p.output().channels);
}

std::unique_ptr<Operator> prepare_channels_last(const ConvProblem& problem, const Preparation& p) {
  const cpu::ChannelsLastKernel& kernel = cpu::best_kernel(cpu::channels_last_kernels(), p.device);
  const cpu::ChannelsLastConv conv(problem.geometry, kernel, p.threads, problem.scaled());
  return make_operator(
      detail::concat(conv.description(), ", ", name(kernel.set)), {.workspace = conv.workspace()},
      [conv, packed = conv.packed(problem.weight, problem.bias), scaled = problem.scaled(),
       adds = problem.epilogue.reads_operands(), epilogue = cpu::row_epilogue(problem.epilogue, p.device),
       from = p.input().pixel_pitch(), to = p.output().pixel_pitch()](
          std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        conv.run({.input = floats(inputs[0]),
                  .packed = floats(packed),
                  .residual = adds ? floats(inputs.back()) : nullptr,
                  .output = floats(outputs[0]),
                  .input_pitch = from,
                  .output_pitch = to,
                  .scale = scaled ? floats(inputs[1]) : nullptr},
                 epilogue, *execution.pool, static_cast<float*>(execution.workspace));
      });
}

constexpr Format planes = {DType::f32, Layout::nchw}, pixels = {DType::f32, Layout::nhwc};

/// The images that a network is given are nchw; the layers after the first want channels last.
bool takes_planes(const ConvProblem& problem, const Preparation& p) {
  if (takes(problem, p)) return problem.epilogue.is_simple();
  return p.precision == Precision::fp32 && p.input().format == planes && p.output().format == pixels;
}

std::unique_ptr<Operator> prepare_planes(const ConvProblem& problem, const Preparation& p) {
  return cpu::through_pixels(p, p.output().format == planes, [&](const Preparation& inner, std::int64_t images) {
    ConvProblem some = problem;
    some.geometry.batch = images;
    return choose(some, inner).prepare(some, inner);
  });
}

std::unique_ptr<Operator> prepare_eigen(const ConvProblem& problem, const Preparation& p) {
  return make_operator("eigen: whole images unfolded, Eigen product",
                       {.workspace = cpu::conv2d_eigen_workspace(problem.geometry, p.threads)},
                       [problem = with_constants(problem)](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                           const Execution& execution) {
                         cpu::conv2d_eigen(problem.geometry, pointers(problem, inputs, outputs), *execution.pool,
                                           static_cast<float*>(execution.workspace));
                       });
}

bool takes_rows(const ConvProblem& problem, const Preparation& p) {
  return takes(problem, p) && cpu::RowBand(problem.geometry).takes;
}

std::unique_ptr<Operator> prepare_rows(const ConvProblem& problem, const Preparation& p) {
  const cpu::RowKernel& kernel = cpu::best_kernel(cpu::row_kernels(), p.device);
  const cpu::RowBand band(problem.geometry);
  return make_operator(
      detail::concat("rows of planes, ", name(kernel.set)),
      {.workspace = band.workspace * static_cast<std::size_t>(p.threads)},
      [problem = with_constants(problem), band, &kernel](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                         const Execution& execution) {
        const ConvGeometry& g = problem.geometry;
        const std::int64_t bands = detail::ceil_div<std::int64_t>(g.out_height, band.height);
        execution.pool->parallel_for(g.batch * g.groups * bands, [&](std::int64_t task, int worker) {
          kernel.run(g, band, pointers(problem, inputs, outputs), task % bands * band.height, task / bands,
                     static_cast<std::byte*>(execution.workspace) + static_cast<std::size_t>(worker) * band.workspace);
        });
      });
}

std::unique_ptr<Operator> prepare_direct(const ConvProblem& problem, const Preparation&) {
  return make_operator("direct: plain loops, summed in double",
                       [problem = with_constants(problem)](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                           const Execution& execution) {
                         cpu::conv2d_direct(problem.geometry, pointers(problem, inputs, outputs), *execution.pool);
                       });
}

/// A row for one unit, or for one type of the input.
template <auto function, auto of>
constexpr auto with = [](const auto& problem, const Preparation& p) { return function(of, problem, p); };

bool takes_code_lanes(const ConvProblem& problem, const Preparation& p) {
  return detail::is_code(p.input()) && cpu::takes_lanes(p.input().format.dtype, problem, p);
}
std::unique_ptr<Operator> prepare_code_lanes(const ConvProblem& problem, const Preparation& p) {
  return cpu::prepare_lanes(p.input().format.dtype, problem, p);
}

constexpr Features of_element = reads::chain | reads::operands, slices = reads::slices, uneven = reads::uneven,
                   of_sums = reads::codes | reads::chain | reads::float_bias | reads::sums | reads::sum_codes;

constexpr Kernel<ConvProblem> table[] = {
    {"lanes", with<cpu::takes_lanes, DType::f32>, with<cpu::prepare_lanes, DType::f32>, cpu::preference::lanes,
     uneven | slices | of_element},
    {"channels_last", takes_channels_last, prepare_channels_last, nullptr, uneven | slices | of_element | reads::scaled,
     true},
    {"rows", takes_rows, prepare_rows, cpu::preference::rows},
    {"planes", takes_planes, prepare_planes, nullptr, reads::chain},
    {"eigen", takes, prepare_eigen, nullptr, uneven},
    {"direct", takes, prepare_direct, nullptr, uneven},
    {"bf16_pooled", cpu::takes_pooled, cpu::prepare_pooled, cpu::preference::pooled,
     slices | reads::chain | reads::pool},
    {"bf16_lanes", with<cpu::takes_lanes, DType::bf16>, with<cpu::prepare_lanes, DType::bf16>, nullptr,
     slices | of_element},
    {"bf16_amx", with<cpu::bf16::takes, Unit::amx>, with<cpu::bf16::prepare, Unit::amx>, cpu::preference::bf16_tiles,
     slices | of_element | reads::scaled, true},
    {"bf16_dot", with<cpu::bf16::takes, Unit::dot>, with<cpu::bf16::prepare, Unit::dot>, cpu::preference::bf16_tiles,
     slices | of_element | reads::scaled, true},
    {"bf16_fma", with<cpu::bf16::takes, Unit::multiply_add>, with<cpu::bf16::prepare, Unit::multiply_add>,
     cpu::preference::bf16_tiles, slices | of_element | reads::scaled, true},
    {"int8_lanes", takes_code_lanes, prepare_code_lanes, nullptr, of_sums},
    {"int8_amx", with<cpu::int8::takes, Unit::amx>, with<cpu::int8::prepare, Unit::amx>, nullptr,
     slices | of_sums | reads::operands},
    {"int8_dot", with<cpu::int8::takes, Unit::dot>, with<cpu::int8::prepare, Unit::dot>, nullptr,
     slices | of_sums | reads::operands},
    {"int8_fma", with<cpu::int8::takes, Unit::multiply_add>, with<cpu::int8::prepare, Unit::multiply_add>, nullptr,
     slices | of_sums | reads::operands},
    {"int8_direct", cpu::int8::takes_direct, cpu::int8::prepare_direct, nullptr,
     slices | of_sums | reads::zero_points}};

}  // namespace

template <>
std::span<const Kernel<ConvProblem>> Kernels<ConvProblem>::cpu() {
  return table;
}

template <>
std::span<const Kernel<ConvPairProblem>> Kernels<ConvPairProblem>::cpu() {
  static constexpr Kernel<ConvPairProblem> pairs[] = {
      {"pair", with<cpu::takes_pair, DType::f32>, with<cpu::prepare_pair, DType::f32>, cpu::preference::pair,
       slices | reads::chain | reads::behind(reads::chain)},
      {"bf16_pair", with<cpu::takes_pair, DType::bf16>, with<cpu::prepare_pair, DType::bf16>,
       cpu::preference::bf16_pair, slices | reads::chain | reads::behind(reads::chain)}};
  return pairs;
}

/// Here the factors are a prologue of the convolution behind them (ConvProblem::scaled).
template <>
std::span<const Kernel<SqueezeExciteProblem>> Kernels<SqueezeExciteProblem>::cpu() {
  return {};
}

/// Maps pass from layer to layer through the caches.
template <>
std::span<const Kernel<BottleneckProblem>> Kernels<BottleneckProblem>::cpu() {
  return {};
}

/// To add one convolution's result to another's costs little here.
template <>
std::span<const Kernel<ConvSumProblem>> Kernels<ConvSumProblem>::cpu() {
  return {};
}

}  // namespace lamina
