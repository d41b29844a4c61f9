// The tables of a CPU's smaller kernels: one row each, f32 nchw. Those of arrays of any dtype and shape are
// in array/, lookup/ and product/.

#include "lamina/kernel/kernel.h"

#include <algorithm>

#include "lamina/cpu/elementwise.h"
#include "lamina/cpu/local_response_norm.h"
#include "lamina/cpu/normalize.h"
#include "lamina/cpu/pool2d/pool2d.h"
#include "lamina/cpu/simd.h"
#include "lamina/cpu/softmax.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/extents.h"

namespace lamina {
namespace {

using detail::floats;
using detail::make_operator;
using Inputs = std::span<const Tensor>;
using Outputs = std::span<Tensor>;

template <class Problem>
bool plain(const Problem&, const Preparation& p) {
  return p.is_plain();
}

bool takes_affine(const AffineProblem& problem, const Preparation& p) {
  return p.is_plain() && problem.epilogue.is_simple();
}

std::unique_ptr<Operator> prepare_affine(const AffineProblem& problem, const Preparation& p) {
  const Activation a = detail::activation_of(p.input().shape);
  return make_operator("scale and shift", {.parameters = problem.scale.bytes() + problem.shift.bytes()},
                       [problem, a](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cpu::scale_and_shift(floats(inputs[0]), floats(problem.scale), floats(problem.shift),
                                              floats(outputs[0]), a.images, a.channels, a.pixels,
                                              problem.epilogue.relu(), *execution.pool);
                       });
}

/// Bytes are copied, whatever they stand for.
bool takes_concat(const ConcatProblem&, const Preparation& p) {
  return p.keeps_format() && p.input().format.layout == Layout::nchw;
}

std::unique_ptr<Operator> prepare_concat(const ConcatProblem& problem, const Preparation& p) {
  return make_operator("copies", [extents = detail::concat_extents(problem, p),
                                  size = static_cast<std::int64_t>(size_of(p.input().format.dtype))](
                                     Inputs inputs, Outputs outputs, const Execution& execution) {
    auto* out = static_cast<std::byte*>(outputs[0].raw());
    for (std::size_t i = 0; i < inputs.size(); out += size * extents.widths[i++]) {
      cpu::copy_rows(static_cast<const std::byte*>(inputs[i].raw()), out, extents.rows, size * extents.widths[i],
                     size * extents.pitch, *execution.pool);
    }
  });
}

std::unique_ptr<Operator> prepare_softmax(const SoftmaxProblem& problem, const Preparation& p) {
  return make_operator("three passes", [kind = problem.kind, e = detail::softmax_extents(problem, p)](
                                           Inputs inputs, Outputs outputs, const Execution& execution) {
    cpu::softmax(kind, floats(inputs[0]), floats(outputs[0]), e.outer, e.extent, e.inner, *execution.pool);
  });
}

std::unique_ptr<Operator> prepare_local_response(const LocalResponseProblem& problem, const Preparation&) {
  return make_operator("strips of pixels", [problem](Inputs inputs, Outputs outputs, const Execution& execution) {
    cpu::local_response_norm(problem.settings, floats(inputs[0]), floats(outputs[0]), *execution.pool);
  });
}

std::unique_ptr<Operator> prepare_pool(const PoolProblem& problem, const Preparation& p) {
  const cpu::PoolKernel& kernel = cpu::best_kernel(cpu::pool_kernels(), p.device);
  return make_operator("rows, then columns", {.workspace = cpu::pool2d_workspace(problem.geometry, p.threads)},
                       [problem, &kernel](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cpu::pool2d(problem.kind, kernel, problem.geometry, floats(inputs[0]), floats(outputs[0]),
                                     *execution.pool, static_cast<float*>(execution.workspace));
                       });
}

bool takes_pictures(const NormalizationProblem&, const Preparation& p) { return p.output().format == Format{}; }

std::unique_ptr<Operator> prepare_normalization(const NormalizationProblem& problem, const Preparation& p) {
  detail::LevelTable table{};
  std::copy_n(floats(problem.table), table.values.size(), table.values.begin());
  table.source = problem.bgr ? std::array{2, 1, 0} : std::array{0, 1, 2};
  return make_operator(
      detail::concat("normalisation from ", p.input().format, " to ", p.output().format, problem.bgr ? ", bgr" : ""),
      {.parameters = sizeof(table)},
      [table, a = detail::activation_of(p.input().shape)](Inputs inputs, Outputs outputs, const Execution& execution) {
        cpu::normalize(a, table, static_cast<const std::uint8_t*>(inputs[0].raw()), floats(outputs[0]),
                       *execution.pool);
      });
}

constexpr Kernel<AffineProblem> affine[] = {{"affine", takes_affine, prepare_affine}};
constexpr Kernel<ConcatProblem> concat[] = {{"copies", takes_concat, prepare_concat}};
constexpr Kernel<SoftmaxProblem> softmax[] = {{"softmax", plain, prepare_softmax}};
constexpr Kernel<LocalResponseProblem> local_response[] = {{"strips", plain, prepare_local_response}};
constexpr Kernel<PoolProblem> pool[] = {{"rows", plain, prepare_pool}};
constexpr Kernel<NormalizationProblem> normalization[] = {{"table", takes_pictures, prepare_normalization}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<AffineProblem>> Kernels<AffineProblem>::cpu() { return affine; }
template <> std::span<const Kernel<ConcatProblem>> Kernels<ConcatProblem>::cpu() { return concat; }
template <> std::span<const Kernel<SoftmaxProblem>> Kernels<SoftmaxProblem>::cpu() { return softmax; }
template <> std::span<const Kernel<LocalResponseProblem>> Kernels<LocalResponseProblem>::cpu() { return local_response; }
template <> std::span<const Kernel<PoolProblem>> Kernels<PoolProblem>::cpu() { return pool; }
template <> std::span<const Kernel<NormalizationProblem>> Kernels<NormalizationProblem>::cpu() { return normalization; }
template <> std::span<const Kernel<ConversionProblem>> Kernels<ConversionProblem>::cpu() { return {}; }  // one format
// clang-format on

}  // namespace lamina
