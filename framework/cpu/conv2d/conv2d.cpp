// The convolutions of a CPU: the table.

#include "lamina/cpu/conv2d/conv2d.h"

#include "lamina/cpu/conv2d/bf16/kernels.h"
#include "lamina/cpu/conv2d/blocked.h"
#include "lamina/cpu/conv2d/channels_last.h"
#include "lamina/cpu/conv2d/int8/kernels.h"
#include "lamina/cpu/conv2d/lanes/lanes.h"
#include "lamina/cpu/conv2d/pair.h"
#include "lamina/cpu/conv2d/preference.h"
#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/squeeze_excite.h"

namespace lamina {
namespace {

using cpu::bf16::Unit;
using detail::floats;
using detail::make_operator;

bool takes(const ConvProblem& problem, const Preparation& p) {
  return p.is_plain() && p.precision == Precision::fp32 && problem.epilogue.is_simple() && !problem.scaled;
}

/// The parameters are shared with the module: several plans use one copy.
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
  return p.precision == Precision::fp32 && problem.epilogue.is_residual(problem.scaled ? 2 : 1) &&
         std::ranges::all_of(p.inputs, stored) && stored(p.output()) && (!problem.scaled || !p.inputs[1].is_slice()) &&
         (!problem.epilogue.reads_operands() || p.inputs.back().channels == p.output().channels);
}

std::unique_ptr<Operator> prepare_channels_last(const ConvProblem& problem, const Preparation& p) {
  const cpu::ChannelsLastKernel& kernel = cpu::best_kernel(cpu::channels_last_kernels(), p.device);
  const cpu::ChannelsLastConv conv(problem.geometry, kernel, p.threads, problem.scaled);
  Tensor packed(Shape{conv.packed_size()});
  conv.pack(floats(problem.weight), floats(problem.bias), floats(packed));
  return make_operator(detail::concat(conv.description(), ", ", name(kernel.set)),
                       {.workspace = conv.workspace(), .parameters = packed.bytes()},
                       [conv, packed, scaled = problem.scaled, adds = problem.epilogue.reads_operands(),
                        epilogue = cpu::row_epilogue(problem.epilogue, p.device), from = p.input().pixel_pitch(),
                        to = p.output().pixel_pitch()](std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                                       const Execution& execution) {
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

/// The images that a network is given are nchw; the layers after the first want channels last.
bool takes_blocked(const ConvProblem& problem, const Preparation& p) {
  if (takes(problem, p)) return true;
  return p.precision == Precision::fp32 && !problem.scaled && problem.epilogue.is_residual() &&
         !problem.epilogue.reads_operands() && p.input().format == Format{} &&
         p.output().format == Format{DType::f32, Layout::nhwc};
}

std::unique_ptr<Operator> prepare_blocked(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const cpu::BlockedKernel& kernel = cpu::best_kernel(cpu::blocked_kernels(), p.device);
  Tensor packed(Shape{cpu::conv2d_blocked_packed_size(g, kernel)});
  cpu::conv2d_blocked_pack(g, kernel, floats(problem.weight), floats(problem.bias), floats(packed));
  return make_operator(detail::concat("blocked: ", kernel.vectors * kernel.lanes, " filters x ", kernel.pixels,
                                      " pixels in registers, ", name(kernel.set)),
                       {.workspace = cpu::conv2d_blocked_workspace(g, kernel, p.threads), .parameters = packed.bytes()},
                       [g, &kernel, packed, channels_last = p.output().format.layout == Layout::nhwc,
                        relu = problem.epilogue.relu(), epilogue = cpu::row_epilogue(problem.epilogue, p.device)](
                           std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
                         cpu::Conv2dPointers pointers = {
                             .input = floats(inputs[0]), .weight = floats(packed), .output = floats(outputs[0])};
                         auto* const workspace = static_cast<float*>(execution.workspace);
                         if (channels_last) {
                           cpu::conv2d_blocked_to_channels_last(g, kernel, pointers, epilogue, *execution.pool,
                                                                workspace);
                         } else {
                           pointers.relu = relu;
                           cpu::conv2d_blocked(g, kernel, pointers, *execution.pool, workspace);
                         }
                       });
}

/// Nothing else turns the layout on its way.
std::unique_ptr<Operator> prepare_eigen(const ConvProblem& problem, const Preparation& p) {
  return make_operator(
      detail::concat("eigen: tiles of ", cpu::conv2d_eigen_tile(problem.geometry), " pixels, Eigen product",
                     p.algorithm.empty() ? " (too few filters a group, or no FMA, for blocked)" : ""),
      {.workspace = cpu::conv2d_eigen_workspace(problem.geometry, p.threads)},
      [problem](std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        cpu::conv2d_eigen(problem.geometry, pointers(problem, inputs, outputs), *execution.pool,
                          static_cast<float*>(execution.workspace));
      });
}

std::unique_ptr<Operator> prepare_im2col(const ConvProblem& problem, const Preparation& p) {
  return make_operator(
      "im2col: whole images unfolded, Eigen product",
      {.workspace = cpu::conv2d_im2col_workspace(problem.geometry, p.threads)},
      [problem](std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        cpu::conv2d_im2col(problem.geometry, pointers(problem, inputs, outputs), *execution.pool,
                           static_cast<float*>(execution.workspace));
      });
}

std::unique_ptr<Operator> prepare_direct(const ConvProblem& problem, const Preparation&) {
  return make_operator(
      "direct: plain loops, summed in double",
      [problem](std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        cpu::conv2d_direct(problem.geometry, pointers(problem, inputs, outputs), *execution.pool);
      });
}

bool takes_code_lanes(const ConvProblem& problem, const Preparation& p) {
  return cpu::takes_lanes<DType::u8>(problem, p) || cpu::takes_lanes<DType::i8>(problem, p);
}
std::unique_ptr<Operator> prepare_code_lanes(const ConvProblem& problem, const Preparation& p) {
  const bool is_u8 = p.input().format.dtype == DType::u8;
  return is_u8 ? cpu::prepare_lanes<DType::u8>(problem, p) : cpu::prepare_lanes<DType::i8>(problem, p);
}

constexpr bool codes = true;

constexpr Kernel<ConvProblem> table[] = {
    {"lanes", cpu::takes_lanes<DType::f32>, cpu::prepare_lanes<DType::f32>, cpu::preference::lanes},
    {"channels_last", takes_channels_last, prepare_channels_last, nullptr, true, false, true},
    {"blocked", takes_blocked, prepare_blocked, cpu::preference::blocked},
    {"eigen", takes, prepare_eigen},
    {"im2col", takes, prepare_im2col},
    {"direct", takes, prepare_direct},
    {"bf16_pooled", cpu::takes_pooled, cpu::prepare_pooled, cpu::preference::pooled, true},
    {"bf16_lanes", cpu::takes_lanes<DType::bf16>, cpu::prepare_lanes<DType::bf16>},
    {"bf16_amx", cpu::bf16::takes<Unit::amx>, cpu::bf16::prepare<Unit::amx>, nullptr, true, false, true},
    {"bf16_dot", cpu::bf16::takes<Unit::dot>, cpu::bf16::prepare<Unit::dot>, nullptr, true, false, true},
    {"bf16_fma", cpu::bf16::takes<Unit::multiply_add>, cpu::bf16::prepare<Unit::multiply_add>, nullptr, true, false,
     true},
    {"int8_lanes", takes_code_lanes, prepare_code_lanes, nullptr, false, false, false, codes},
    {"int8_amx", cpu::int8::takes<Unit::amx>, cpu::int8::prepare<Unit::amx>, nullptr, true, false, false, codes},
    {"int8_dot", cpu::int8::takes<Unit::dot>, cpu::int8::prepare<Unit::dot>, nullptr, true, false, false, codes},
    {"int8_fma", cpu::int8::takes<Unit::multiply_add>, cpu::int8::prepare<Unit::multiply_add>, nullptr, true, false,
     false, codes},
    {"int8_direct", cpu::int8::takes_direct, cpu::int8::prepare_direct, nullptr, true, false, false, codes}};

}  // namespace

template <>
std::span<const Kernel<ConvProblem>> Kernels<ConvProblem>::cpu() {
  return table;
}

template <>
std::span<const Kernel<ConvPairProblem>> Kernels<ConvPairProblem>::cpu() {
  static constexpr Kernel<ConvPairProblem> pairs[] = {
      {"pair", cpu::takes_pair<DType::f32>, cpu::prepare_pair<DType::f32>, cpu::preference::pair, true},
      {"bf16_pair", cpu::takes_pair<DType::bf16>, cpu::prepare_pair<DType::bf16>, cpu::preference::bf16_pair, true}};
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
