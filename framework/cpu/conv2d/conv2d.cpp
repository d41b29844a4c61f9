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

constexpr Format planes = {DType::f32, Layout::nchw}, pixels = {DType::f32, Layout::nhwc};

/// The images that a network is given are nchw; the layers after the first want channels last.
bool takes_planes(const ConvProblem& problem, const Preparation& p) {
  if (takes(problem, p)) return true;
  return p.precision == Precision::fp32 && !problem.scaled && problem.epilogue.is_residual() &&
         !problem.epilogue.reads_operands() && p.input().format == planes && p.output().format == pixels;
}

/// Three planes have vectors of their own.
void interleave(const cpu::bf16::Moves& moves, const Activation& a, const float* from, float* to, ThreadPool& pool) {
  if (a.channels != 3) return cpu::convert(a, planes, from, pixels, to, pool);
  constexpr std::int64_t piece = 8192;
  const std::int64_t pieces = detail::ceil_div(a.pixels, piece);
  pool.parallel_for(a.images * pieces, [&](std::int64_t task, int) {
    const std::int64_t image = task / pieces * 3 * a.pixels, first = task % pieces * piece;
    moves.interleave_f32(from + image + first, a.pixels, 3, std::min(piece, a.pixels - first), to + image + 3 * first);
  });
}

/// The channels of each pixel are brought side by side for the kernel that reads them so and, if it is asked for, the
/// output's apart again: of as many images at a time as there are threads, whose caches hold what lies between.
std::unique_ptr<Operator> prepare_planes(const ConvProblem& problem, const Preparation& p) {
  const bool turns = p.output().format == planes;
  ConvProblem some = problem;
  const std::int64_t batch = problem.geometry.batch;
  std::int64_t& images = some.geometry.batch;
  for (images = turns ? std::min<std::int64_t>(batch, p.threads) : batch; images > 1 && batch % images != 0;) --images;
  View from = p.input(), to = p.output();
  for (View* view : {&from, &to}) {
    view->shape.set(0, images);
    view->format = pixels;
  }
  Preparation inner = p;
  inner.inputs = {&from, 1}, inner.outputs = {&to, 1};
  inner.algorithm = {}, inner.finding = nullptr;
  std::shared_ptr<const Operator> conv = choose(some, inner).prepare(some, inner);
  const Activation in = detail::activation_of(from.shape), out = detail::activation_of(to.shape);
  const auto floats_of = [](const Activation& a) { return detail::round_up(a.size(), std::int64_t{16}); };
  const std::int64_t in_floats = floats_of(in), own = in_floats + (turns ? floats_of(out) : 0);
  return make_operator(detail::concat("from planes, ", conv->description()),
                       {.workspace = static_cast<std::size_t>(own) * sizeof(float) + conv->workspace_bytes(),
                        .parameters = conv->parameter_bytes()},
                       [=, &moves = cpu::best_kernel(cpu::bf16::moves(), p.device)](
                           std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
                         auto* const workspace = static_cast<float*>(execution.workspace);
                         Execution rest = execution;
                         rest.workspace = workspace + own;
                         const Tensor x = Tensor::borrow(workspace, from.shape, DType::f32);
                         const float* input = floats(inputs[0]);
                         float* output = floats(outputs[0]);
                         for (std::int64_t n = 0; n < batch; n += in.images, input += in.size(), output += out.size()) {
                           Tensor y = Tensor::borrow(turns ? workspace + in_floats : output, to.shape, DType::f32);
                           interleave(moves, in, input, workspace, *execution.pool);
                           conv->run({&x, 1}, {&y, 1}, rest);
                           if (turns) cpu::convert(out, pixels, y.raw(), planes, output, *execution.pool);
                         }
                       });
}

std::unique_ptr<Operator> prepare_eigen(const ConvProblem& problem, const Preparation& p) {
  return make_operator(
      "eigen: whole images unfolded, Eigen product",
      {.workspace = cpu::conv2d_eigen_workspace(problem.geometry, p.threads)},
      [problem](std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        cpu::conv2d_eigen(problem.geometry, pointers(problem, inputs, outputs), *execution.pool,
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
    {"planes", takes_planes, prepare_planes},
    {"eigen", takes, prepare_eigen},
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
