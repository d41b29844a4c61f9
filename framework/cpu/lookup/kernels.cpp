// The tables of a CPU's lookups and scans, nchw but for resampling.

#include <algorithm>

#include "lamina/cpu/lookup/cumulative.h"
#include "lamina/cpu/lookup/gather.h"
#include "lamina/cpu/lookup/grid_sample.h"
#include "lamina/cpu/lookup/resample.h"
#include "lamina/cpu/lookup/scatter.h"
#include "lamina/cpu/lookup/topk.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/extents.h"
#include "lamina/kernel/rules/lookup_extents.h"

namespace lamina {
namespace {

using namespace tables;

/// Any layout to itself, and images stored channels last to planes if rows of pixels are resampled.
bool takes_resample(const ResampleProblem& problem, const Preparation& p) {
  const Format from = p.input().format, to = p.output().format;
  if (from.dtype != DType::f32 || p.has_slices() || p.has_strides() || !detail::is_resample(problem, p)) return false;
  if (p.input().shape.rank() != 4) return p.is_plain();
  const bool rows = std::ranges::any_of(problem.axes, [](const ResampleProblem::Axis& axis) { return axis.dim == 3; });
  return from.layout == to.layout || (from.layout == Layout::nhwc && rows);
}

std::unique_ptr<Operator> prepare_resample(const ResampleProblem& problem, const Preparation& p) {
  // Of the dimensions in the order in which they lie in the output.
  const Layout layout = p.output().format.layout;
  const Shape in = detail::stored(p.input().shape, layout, 0).shape;
  const Shape out = detail::stored(p.output().shape, layout, 0).shape;
  ResampleProblem own = problem;
  for (ResampleProblem::Axis& axis : own.axes) axis.dim = detail::stored(p.input().shape, layout, axis.dim).dim;
  std::vector<std::int64_t> steps;
  for (int d = 0; d < static_cast<int>(in.rank()); ++d) {
    steps.push_back(detail::extent_product(in, d + 1, static_cast<int>(in.rank())));
  }
  if (p.input().format.layout != layout) steps = {in[1] * in[2] * in[3], 1, in[3] * in[1], in[1]};
  return make_operator(
      "rows", {.workspace = cpu::resample_workspace(own, in, p.threads)},
      [own, in, steps = Shape(steps), out](Inputs inputs, Outputs outputs, const Execution& execution) {
        cpu::resample(own, in, steps, out, floats(inputs[0]), floats(outputs[0]), *execution.pool,
                      static_cast<float*>(execution.workspace));
      });
}

std::unique_ptr<Operator> prepare_gather(const GatherProblem& problem, const Preparation& p) {
  return make_operator("one by one", [e = detail::gather_extents(problem, p)](Inputs inputs, Outputs outputs,
                                                                              const Execution& execution) {
    cpu::gather(e, size_of(inputs[0].dtype()), inputs[1].dtype(), inputs[0].raw(), inputs[1].raw(), outputs[0].raw(),
                *execution.pool);
  });
}

std::unique_ptr<Operator> prepare_scatter(const ScatterProblem& problem, const Preparation& p) {
  return make_operator("in order", [e = detail::scatter_extents(problem, p), reduction = problem.reduction](
                                       Inputs inputs, Outputs outputs, const Execution& execution) {
    cpu::scatter(e, reduction, inputs[0].dtype(), inputs[1].dtype(), inputs[0].raw(), inputs[0].numel(),
                 inputs[1].raw(), inputs[2].raw(), outputs[0].raw(), *execution.pool);
  });
}

std::unique_ptr<Operator> prepare_topk(const TopKProblem& problem, const Preparation& p) {
  const detail::LineExtents e = detail::line_extents(p.input().shape, problem.dim);
  return make_operator("partial sort", {.workspace = cpu::topk_workspace(e, p.threads)},
                       [problem, e](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cpu::topk(problem, e, inputs[0].dtype(), inputs[0].raw(), outputs[0].raw(), *execution.pool,
                                   execution.workspace);
                       });
}

bool takes_grid_sample(const GridSampleProblem& problem, const Preparation& p) {
  return detail::is_grid_sample(problem, p) && p.is_plain();
}

std::unique_ptr<Operator> prepare_grid_sample(const GridSampleProblem& problem, const Preparation&) {
  return make_operator("pixel by pixel", [problem](Inputs inputs, Outputs outputs, const Execution& execution) {
    cpu::grid_sample(problem, inputs[0].shape(), outputs[0].shape(), floats(inputs[0]), floats(inputs[1]),
                     floats(outputs[0]), *execution.pool);
  });
}

bool takes_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  return detail::is_cumulative(problem, p) &&
         (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64);
}

std::unique_ptr<Operator> prepare_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  return make_operator("in order", [problem, e = detail::line_extents(p.input().shape, problem.dim)](
                                       Inputs inputs, Outputs outputs, const Execution& execution) {
    cpu::cumulative(problem, e, inputs[0].dtype(), inputs[0].raw(), outputs[0].raw(), *execution.pool);
  });
}

constexpr Kernel<ResampleProblem> resample[] = {{"rows", takes_resample, prepare_resample}};
constexpr Kernel<GatherProblem> gather[] = {{"gather", detail::is_gather, prepare_gather}};
constexpr Kernel<ScatterProblem> scatter[] = {{"scatter", detail::is_scatter, prepare_scatter}};
constexpr Kernel<TopKProblem> topk[] = {{"sort", detail::is_topk, prepare_topk}};
constexpr Kernel<GridSampleProblem> grid_sample[] = {{"pixels", takes_grid_sample, prepare_grid_sample}};
constexpr Kernel<CumulativeProblem> cumulative[] = {{"scan", takes_cumulative, prepare_cumulative}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<ResampleProblem>> Kernels<ResampleProblem>::cpu() { return resample; }
template <> std::span<const Kernel<GatherProblem>> Kernels<GatherProblem>::cpu() { return gather; }
template <> std::span<const Kernel<ScatterProblem>> Kernels<ScatterProblem>::cpu() { return scatter; }
template <> std::span<const Kernel<TopKProblem>> Kernels<TopKProblem>::cpu() { return topk; }
template <> std::span<const Kernel<GridSampleProblem>> Kernels<GridSampleProblem>::cpu() { return grid_sample; }
template <> std::span<const Kernel<CumulativeProblem>> Kernels<CumulativeProblem>::cpu() { return cumulative; }
// clang-format on

}  // namespace lamina
