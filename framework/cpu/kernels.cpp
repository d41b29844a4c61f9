// The tables of a CPU's smaller kernels: activations of f32 or bf16, nchw or nhwc. Those of arrays of any dtype and
// shape are in array/, lookup/ and product/.

#include <algorithm>

#include "lamina/cpu/array/array.h"
#include "lamina/cpu/codes.h"
#include "lamina/cpu/concat.h"
#include "lamina/cpu/convert.h"
#include "lamina/cpu/images.h"
#include "lamina/cpu/pool2d/channels.h"
#include "lamina/cpu/pool2d/planes.h"
#include "lamina/cpu/simd.h"
#include "lamina/cpu/softmax.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/map/map.h"
#include "lamina/kernel/rules/extents.h"
#include "lamina/tensor/constants.h"

namespace lamina {
namespace {

using namespace tables;

template <class Problem>
bool plain(const Problem&, const Preparation& p) {
  return p.is_plain();
}

bool is_computed(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

bool takes_affine(const AffineProblem&, const Preparation& p) {
  const bool rows = p.input().format.layout == Layout::nhwc || !p.has_slices();
  return p.keeps_format() && is_computed(p.input().format.dtype) && rows;
}

/// Of what codes stand for, pixel by pixel: to codes, or to f32.
bool takes_affine_of_codes(const AffineProblem&, const Preparation& p) {
  const View &from = p.input(), &to = p.output();
  return p.inputs.size() == 1 && from.quantization.defined() &&
         (to.quantization.defined() || to.format.dtype == DType::f32) && from.format.layout == Layout::nhwc &&
         to.format.layout == Layout::nhwc;
}

std::unique_ptr<Operator> prepare_concat(const ConcatProblem& problem, const Preparation& p) {
  return make_operator(
      "copies", [rows = detail::concat_rows(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        cpu::concat(inputs, rows, static_cast<std::byte*>(outputs[0].raw()), *execution.pool);
      });
}

std::unique_ptr<Operator> prepare_softmax(const SoftmaxProblem& problem, const Preparation& p) {
  return make_operator("three passes", [kind = problem.kind, e = detail::softmax_extents(problem, p),
                                        &kernel = cpu::best_kernel(cpu::softmax_kernels(), p.device)](
                                           Inputs inputs, Outputs outputs, const Execution& execution) {
    cpu::softmax(kernel, kind, floats(inputs[0]), floats(outputs[0]), e.outer, e.extent, e.inner, *execution.pool);
  });
}

bool takes_channel_pool(const PoolProblem& problem, const Preparation& p) {
  const PoolGeometry& g = problem.geometry;
  const bool dilated = g.dilation_height != 1 || g.dilation_width != 1;
  const Format from = p.input().format, to = p.output().format;
  if (p.has_codes()) {
    constexpr int most_exact = 65'793;  // codes whose sum is a whole number of f32
    const Quantization &before = p.input().quantization, &after = p.output().quantization;
    if (!before.defined() || from.layout != Layout::nhwc || to.layout != Layout::nhwc) return false;
    if (problem.kind == PoolKind::largest) return from.dtype == to.dtype && before == after;
    return !dilated && (after.defined() || to.dtype == DType::f32) && g.in_pixels() <= most_exact;
  }
  return is_computed(from.dtype) && to.dtype == from.dtype && from.layout == Layout::nhwc &&
         (to.layout == Layout::nhwc || !p.output().is_slice()) && (problem.kind == PoolKind::largest || !dilated);
}

std::unique_ptr<Operator> prepare_channel_pool(const PoolProblem& problem, const Preparation& p) {
  const cpu::ChannelPoolKernel& kernel = cpu::best_kernel(cpu::channel_pool_kernels(), p.device);
  const bool to_planes = p.output().format.layout == Layout::nchw;
  return make_operator(
      "windows of all channels",
      [problem, &kernel,
       channels =
           cpu::PooledChannels{p.input().shape[1], p.input().pixel_pitch(), to_planes ? 0 : p.output().pixel_pitch()},
       dtype = p.input().format.dtype,
       codes = cpu::PooledCodes{p.input().quantization, p.output().quantization, p.output().format.dtype,
                                p.has_codes() ? &cpu::best_kernel(cpu::codes_kernels(), p.device) : nullptr}](
          Inputs inputs, Outputs outputs, const Execution& execution) {
        cpu::channel_pool2d(problem.kind, kernel, problem.geometry, channels, dtype, inputs[0].raw(), outputs[0].raw(),
                            *execution.pool, codes);
      });
}

std::unique_ptr<Operator> prepare_pool(const PoolProblem& problem, const Preparation& p) {
  // The mean of whole planes is one of rows, for which nothing has to be turned.
  const bool whole = problem.kind == PoolKind::adaptive && problem.geometry.out_pixels() == 1;
  if (whole) return cpu::prepare_reduce({.kind = Reduction::mean, .dims = 0b1100}, p);
  if (cpu::pools_planes(problem.kind, problem.geometry)) {
    return make_operator("windows of planes", [problem,
                                               &kernel = cpu::best_kernel(cpu::plane_pool_kernels(), p.device)](
                                                  Inputs inputs, Outputs outputs, const Execution& execution) {
      cpu::plane_pool2d(problem.kind, kernel, problem.geometry, floats(inputs[0]), floats(outputs[0]), *execution.pool);
    });
  }
  return cpu::through_pixels(
      p, false, [&](const Preparation& inner, std::int64_t) { return prepare_channel_pool(problem, inner); });
}

bool takes_conversion(const ConversionProblem&, const Preparation& p) {
  const View &from = p.input(), &to = p.output();
  if (p.has_codes()) return from.format.dtype == to.format.dtype && from.quantization == to.quantization;
  return is_activation(from.format.dtype) && is_activation(to.format.dtype);
}

std::unique_ptr<Operator> prepare_conversion(const ConversionProblem&, const Preparation& p) {
  const Format from = p.input().format, to = p.output().format;
  return make_operator(
      detail::concat("conversion from ", from, " to ", to),
      [=, a = detail::activation_of(p.input().shape)](Inputs inputs, Outputs outputs, const Execution& execution) {
        cpu::convert(a, from, inputs[0].raw(), to, outputs[0].raw(), *execution.pool);
      });
}

bool takes_pictures(const NormalizationProblem&, const Preparation& p) {
  const DType to = p.output().format.dtype;
  return to == DType::f32 || to == DType::bf16;
}

constexpr Kernel<AffineProblem> affine[] = {
    {"affine", takes_affine, cpu::prepare_affine, nullptr, reads::slices},
    {"codes", takes_affine_of_codes, cpu::prepare_affine, nullptr, reads::slices | reads::codes}};
constexpr Kernel<ConcatProblem> concat[] = {
    {"copies", detail::joins_rows, prepare_concat, nullptr, reads::slices | reads::codes}};
constexpr Kernel<SoftmaxProblem> softmax[] = {{"softmax", plain, prepare_softmax}};
constexpr Kernel<LocalResponseProblem> local_response[] = {{"strips", plain, cpu::prepare_local_response}};
constexpr Kernel<PoolProblem> pool[] = {
    {"planes", plain, prepare_pool},
    {"channels", takes_channel_pool, prepare_channel_pool, nullptr, reads::slices | reads::codes}};
constexpr Kernel<ConversionProblem> conversion[] = {
    {"conversion", takes_conversion, prepare_conversion, nullptr, reads::codes}};
constexpr Kernel<NormalizationProblem> normalization[] = {{"table", takes_pictures, cpu::prepare_normalization}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<AffineProblem>> Kernels<AffineProblem>::cpu() { return affine; }
template <> std::span<const Kernel<ConcatProblem>> Kernels<ConcatProblem>::cpu() { return concat; }
template <> std::span<const Kernel<SoftmaxProblem>> Kernels<SoftmaxProblem>::cpu() { return softmax; }
template <> std::span<const Kernel<LocalResponseProblem>> Kernels<LocalResponseProblem>::cpu() { return local_response; }
template <> std::span<const Kernel<PoolProblem>> Kernels<PoolProblem>::cpu() { return pool; }
template <> std::span<const Kernel<MapProblem>> Kernels<MapProblem>::cpu() { return {}; }
template <> std::span<const Kernel<NormalizationProblem>> Kernels<NormalizationProblem>::cpu() { return normalization; }
template <> std::span<const Kernel<ConversionProblem>> Kernels<ConversionProblem>::cpu() { return conversion; }
// clang-format on

}  // namespace lamina
