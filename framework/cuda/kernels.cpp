// The tables of a GPU's smaller kernels: activations of f32, f16 or bf16, one row each. Those of arrays of any
// dtype and shape are in array/, lookup/ and product/.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/convert.h"
#include "lamina/cuda/eight_bits/elementwise.h"
#include "lamina/cuda/eight_bits/pool.h"
#include "lamina/cuda/elementwise.h"
#include "lamina/cuda/local_response_norm.h"
#include "lamina/cuda/normalize.h"
#include "lamina/cuda/pool2d.h"
#include "lamina/cuda/softmax.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/extents.h"

namespace lamina {
namespace {

using namespace tables;

template <class Problem>
bool keeps_format(const Problem&, const Preparation& p) {
  return p.keeps_format();
}

bool takes_affine(const AffineProblem& problem, const Preparation& p) {
  const View& input = p.input();
  // A slice is read 16 bytes at a time.
  const bool slice_fits = input.format.layout == Layout::nhwc && !p.output().is_slice() && input.alignment % 16 == 0 &&
                          static_cast<std::size_t>(input.shape[1]) * size_of(input.format.dtype) % 16 == 0 &&
                          input.shape.numel() < std::int64_t{1} << 31 && input.channels < std::int64_t{1} << 31;
  return p.keeps_format() && problem.epilogue.is_simple() && (!p.has_slices() || slice_fits);
}

std::unique_ptr<Operator> prepare_affine(const AffineProblem& problem, const Preparation& p) {
  const Device device = p.device.device;
  const Tensor scale = problem.scale.to(device), shift = problem.shift.to(device);
  return make_operator(
      "scale and shift", {.parameters = scale.bytes() + shift.bytes()},
      [=, format = p.input().format, a = detail::activation_of(p.input().shape), pitch = p.input().pixel_pitch(),
       relu = problem.epilogue.relu()](Inputs inputs, Outputs outputs, const Execution& execution) {
        cuda::scale_and_shift(device.index, format, a, inputs[0].raw(), floats(scale), floats(shift), pitch,
                              outputs[0].raw(), relu, execution.stream);
      });
}

/// Codes to codes or floats, channels last.
bool reads_codes(const Preparation& p) {
  const View &from = p.input(), &to = p.output();
  return p.inputs.size() == 1 && detail::is_code(from) && (detail::is_code(to) || is_activation(to.format.dtype)) &&
         from.format.layout == Layout::nhwc && to.format.layout == Layout::nhwc &&
         to.shape.numel() < std::int64_t{1} << 31;
}

/// Of what codes stand for.
bool takes_affine_of_codes(const AffineProblem& problem, const Preparation& p) {
  return reads_codes(p) && problem.epilogue.is_simple() && !p.output().is_slice();
}

std::unique_ptr<Operator> prepare_affine_of_codes(const AffineProblem& problem, const Preparation& p) {
  const Device device = p.device.device;
  const Tensor scale = problem.scale.to(device), shift = problem.shift.to(device);
  return make_operator("scale and shift of codes", {.parameters = scale.bytes() + shift.bytes()},
                       [=, from = p.input(), to = p.output(), relu = problem.epilogue.relu()](
                           Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::scale_and_shift_of_codes(device.index, from, to, inputs[0].raw(), floats(scale),
                                                        floats(shift), relu, outputs[0].raw(), execution.stream);
                       });
}

std::unique_ptr<Operator> prepare_softmax(const SoftmaxProblem& problem, const Preparation& p) {
  const detail::SoftmaxExtents e = detail::softmax_extents(problem, p);
  constexpr std::int64_t usual_images = 32;  // whose order all batches have, where batches must not matter
  const std::int64_t all = e.outer * e.inner;
  const std::int64_t usual =
      p.batch_invariant ? detail::ceil_div(all, std::max<std::int64_t>(p.images, 1)) * usual_images : all;
  return make_operator("three passes", [=, kind = problem.kind, device = index(p)](Inputs inputs, Outputs outputs,
                                                                                   const Execution& execution) {
    cuda::softmax(device, kind, outputs[0].dtype(), inputs[0].raw(), outputs[0].raw(), e.outer, e.extent, e.inner,
                  usual, execution.stream);
  });
}

std::unique_ptr<Operator> prepare_local_response(const LocalResponseProblem& problem, const Preparation& p) {
  return make_operator("one thread per output", [problem, device = index(p), format = p.input().format](
                                                    Inputs inputs, Outputs outputs, const Execution& execution) {
    cuda::local_response_norm(device, problem.settings, format, inputs[0].raw(), outputs[0].raw(), execution.stream);
  });
}

/// Pooling may turn the layout on its way.
bool takes_pool(const PoolProblem& problem, const Preparation& p) {
  const View &input = p.input(), &output = p.output();
  // A slice is written 16 bytes at a time, by the kernel that does not turn the layout.
  const bool slice_fits = !input.is_slice() && problem.kind != PoolKind::adaptive && output.alignment % 16 == 0 &&
                          input.format == output.format && output.format.layout == Layout::nhwc &&
                          static_cast<std::size_t>(output.shape[1]) * size_of(output.format.dtype) % 16 == 0;
  return input.format.dtype == output.format.dtype && (!p.has_slices() || slice_fits);
}

std::unique_ptr<Operator> prepare_pool(const PoolProblem& problem, const Preparation& p) {
  const cuda::PoolFormat format = {.channels = p.input().shape[1],
                                   .dtype = p.input().format.dtype,
                                   .input = p.input().format.layout,
                                   .output = p.output().format.layout,
                                   .pixel_pitch = p.output().pixel_pitch()};
  const bool heeds = problem.kind != PoolKind::adaptive && format.input == format.output;
  return make_operator(
      "each window by one thread", {.heeds_neighbours = heeds},
      [problem, format, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        cuda::PoolFormat stored = format;
        stored.neighbours = execution.neighbours;
        cuda::pool2d(device, problem.kind, problem.geometry, stored, inputs[0].raw(), outputs[0].raw(),
                     execution.stream);
      });
}

bool takes_pool_of_codes(const PoolProblem& problem, const Preparation& p) {
  constexpr int most_exact = 65'793;  // codes whose sum is a whole number of f32
  const PoolGeometry& g = problem.geometry;
  if (!reads_codes(p)) return false;
  if (problem.kind == PoolKind::largest) return p.keeps_format();
  return g.dilation_height == 1 && g.dilation_width == 1 && g.in_pixels() <= most_exact;
}

std::unique_ptr<Operator> prepare_pool_of_codes(const PoolProblem& problem, const Preparation& p) {
  return make_operator("windows of all channels", [problem, from = p.input(), to = p.output(), device = index(p)](
                                                      Inputs inputs, Outputs outputs, const Execution& execution) {
    cuda::pool_of_codes(device, problem.kind, problem.geometry, from, to, inputs[0].raw(), outputs[0].raw(),
                        execution.stream);
  });
}

template <class Problem>
bool any_format(const Problem&, const Preparation&) {
  return true;
}

bool takes_conversion(const ConversionProblem&, const Preparation& p) {
  const View &from = p.input(), &to = p.output();
  return !p.has_codes() || (from.format.dtype == to.format.dtype && from.quantization == to.quantization);
}

std::unique_ptr<Operator> prepare_conversion(const ConversionProblem&, const Preparation& p) {
  const Format from = p.input().format, to = p.output().format;
  return make_operator(detail::concat("conversion from ", from, " to ", to),
                       [=, device = index(p), a = detail::activation_of(p.input().shape)](
                           Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::convert(device, a, from, inputs[0].raw(), to, outputs[0].raw(), execution.stream);
                       });
}

std::unique_ptr<Operator> prepare_normalization(const NormalizationProblem& problem, const Preparation& p) {
  const Format to = p.output().format;
  const Tensor table = problem.table.to(p.device.device);
  return make_operator(detail::concat("normalisation from ", p.input().format, " to ", to, problem.bgr ? ", bgr" : ""),
                       {.parameters = table.bytes()},
                       [=, bgr = problem.bgr, device = index(p), a = detail::activation_of(p.input().shape)](
                           Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::normalize(device, a, inputs[0].raw(), floats(table), bgr, to, outputs[0].raw(),
                                         execution.stream);
                       });
}

constexpr Kernel<AffineProblem> affine[] = {
    {"affine", takes_affine, prepare_affine, nullptr, true},
    {"codes", takes_affine_of_codes, prepare_affine_of_codes, nullptr, true, false, false, true}};
constexpr Kernel<SoftmaxProblem> softmax[] = {{"softmax", keeps_format, prepare_softmax}};
constexpr Kernel<LocalResponseProblem> local_response[] = {{"threads", keeps_format, prepare_local_response}};
constexpr Kernel<PoolProblem> pool[] = {
    {"windows", takes_pool, prepare_pool, nullptr, true},
    {"codes", takes_pool_of_codes, prepare_pool_of_codes, nullptr, true, false, false, true}};
constexpr Kernel<ConversionProblem> conversion[] = {
    {"conversion", takes_conversion, prepare_conversion, nullptr, false, false, false, true}};
constexpr Kernel<NormalizationProblem> normalization[] = {{"table", any_format, prepare_normalization}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<AffineProblem>> Kernels<AffineProblem>::cuda() { return affine; }
template <> std::span<const Kernel<SoftmaxProblem>> Kernels<SoftmaxProblem>::cuda() { return softmax; }
template <> std::span<const Kernel<LocalResponseProblem>> Kernels<LocalResponseProblem>::cuda() { return local_response; }
template <> std::span<const Kernel<PoolProblem>> Kernels<PoolProblem>::cuda() { return pool; }
template <> std::span<const Kernel<ConversionProblem>> Kernels<ConversionProblem>::cuda() { return conversion; }
template <> std::span<const Kernel<NormalizationProblem>> Kernels<NormalizationProblem>::cuda() { return normalization; }
// clang-format on

}  // namespace lamina
