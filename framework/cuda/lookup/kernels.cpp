// The tables of a GPU's lookups and scans.

#include <algorithm>

#include "lamina/cuda/lookup/cumulative.h"
#include "lamina/cuda/lookup/gather.h"
#include "lamina/cuda/lookup/grid_sample.h"
#include "lamina/cuda/lookup/resample.h"
#include "lamina/cuda/lookup/scatter.h"
#include "lamina/cuda/lookup/topk.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/lookup_extents.h"

namespace lamina {
namespace {

using namespace tables;

DType dtype_of(const Preparation& p) { return p.input().format.dtype; }

/// How the axes divide the shape, in the order in which dimensions lie in memory.
cuda::ResampleArguments resample_arguments(const ResampleProblem& problem, const Preparation& p) {
  const Layout layout = p.input().format.layout;
  const Shape in = detail::stored(p.input().shape, layout, 0).shape;
  const Shape out = detail::stored(p.output().shape, layout, 0).shape;
  cuda::ResampleArguments arguments;
  arguments.count = out.numel();
  arguments.run[0] = 1;
  for (int d = 0; d < static_cast<int>(in.rank()); ++d) {
    const std::int64_t step = detail::extent_product(in, d + 1, static_cast<int>(in.rank()));
    const auto axis = std::find_if(problem.axes.begin(), problem.axes.end(), [&](const ResampleProblem::Axis& a) {
      return detail::stored(p.input().shape, layout, a.dim).dim == d;
    });
    if (axis == problem.axes.end()) {
      arguments.run[arguments.axes] *= out[d];
      arguments.run_step[arguments.axes] = step;
      continue;
    }
    arguments.axis[arguments.axes] = {.problem_axis = static_cast<int>(axis - problem.axes.begin()),
                                      .taps = axis->taps,
                                      .extent = out[d],
                                      .step = step};
    arguments.run[++arguments.axes] = 1;
  }
  return arguments;
}

bool takes_resample(const ResampleProblem& problem, const Preparation& p) {
  const Layout layout = p.input().format.layout;
  if (!detail::is_resample(problem, p) || !is_activation(dtype_of(p)) || !p.keeps_format()) return false;
  if (problem.axes.size() > cuda::ResampleArguments::max_axes) return false;
  if (layout != Layout::nchw && (layout != Layout::nhwc || p.input().shape.rank() != 4)) return false;
  const cuda::ResampleArguments arguments = resample_arguments(problem, p);
  return arguments.count == 0 || arguments.count / arguments.run[0] < (std::int64_t{1} << 32);
}

std::unique_ptr<Operator> prepare_resample(const ResampleProblem& problem, const Preparation& p) {
  cuda::ResampleArguments arguments = resample_arguments(problem, p);
  std::vector<cuda::Constant> taps;
  std::size_t bytes = 0;
  const auto constant = [&](const auto& values) {
    taps.emplace_back(index(p), values.data(), values.size() * sizeof(values[0]));
    bytes += taps.back().bytes();
    return taps.back().data();
  };
  for (int a = 0; a < arguments.axes; ++a) {
    auto& axis = arguments.axis[a];
    const ResampleProblem::Axis& from = problem.axes[static_cast<std::size_t>(axis.problem_axis)];
    axis.indices = static_cast<const int*>(constant(from.indices));
    axis.weights = static_cast<const float*>(constant(from.weights));
  }
  return make_operator(
      "a thread for each output", {.parameters = bytes},
      [arguments, taps, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        cuda::resample(device, outputs[0].dtype(), arguments, inputs[0].raw(), outputs[0].raw(), execution.stream);
      });
}

std::unique_ptr<Operator> prepare_gather(const GatherProblem& problem, const Preparation& p) {
  return make_operator("a thread for each word", [e = detail::gather_extents(problem, p), device = index(p)](
                                                     Inputs inputs, Outputs outputs, const Execution& execution) {
    cuda::gather(device, e, size_of(inputs[0].dtype()), inputs[1].dtype(), inputs[0].raw(), inputs[1].raw(),
                 outputs[0].raw(), execution.fault, execution.stream);
  });
}

std::unique_ptr<Operator> prepare_scatter(const ScatterProblem& problem, const Preparation& p) {
  return make_operator(
      "in order", [e = detail::scatter_extents(problem, p), device = index(p), reduction = problem.reduction](
                      Inputs inputs, Outputs outputs, const Execution& execution) {
        cuda::scatter(device, e, reduction, inputs[0].dtype(), inputs[1].dtype(), inputs[0].raw(), inputs[0].numel(),
                      inputs[1].raw(), inputs[2].raw(), outputs[0].raw(), execution.fault, execution.stream);
      });
}

bool takes_topk(const TopKProblem& problem, const Preparation& p) {
  return detail::is_topk(problem, p) && p.input().shape[problem.dim] < (std::int64_t{1} << 32);
}

std::unique_ptr<Operator> prepare_topk(const TopKProblem& problem, const Preparation& p) {
  const detail::LineExtents e = detail::line_extents(p.input().shape, problem.dim);
  return make_operator("a block for each line", {.workspace = cuda::topk_workspace(problem, e, dtype_of(p))},
                       [problem, e, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::topk(device, problem, e, inputs[0].dtype(), inputs[0].raw(), outputs[0].raw(),
                                    execution.workspace, execution.stream);
                       });
}

bool takes_grid_sample(const GridSampleProblem& problem, const Preparation& p) {
  if (!detail::is_grid_sample(problem, p) || !is_activation(dtype_of(p))) return false;
  const DType grid = p.inputs[1].format.dtype;
  return grid == dtype_of(p) || grid == DType::f32;
}

std::unique_ptr<Operator> prepare_grid_sample(const GridSampleProblem& problem, const Preparation& p) {
  const Shape &in = p.input().shape, &out = p.output().shape;
  cuda::GridExtents e;
  e.dims = static_cast<int>(in.rank()) - 2;
  e.images = in[0], e.channels = in[1];
  for (int d = 0; d < e.dims; ++d) e.sizes[d] = in[-1 - d], e.pixels *= out[-1 - d];
  return make_operator("a thread for each pixel",
                       [problem, e, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::grid_sample(device, problem, e, inputs[0].dtype(), inputs[1].dtype(), inputs[0].raw(),
                                           inputs[1].raw(), outputs[0].raw(), execution.stream);
                       });
}

bool takes_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  if (!detail::is_cumulative(problem, p)) return false;
  const DType dtype = dtype_of(p);
  return is_activation(dtype) || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
}

std::unique_ptr<Operator> prepare_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  return make_operator("scan", [problem, e = detail::line_extents(p.input().shape, problem.dim), device = index(p)](
                                   Inputs inputs, Outputs outputs, const Execution& execution) {
    cuda::cumulative(device, problem, e, inputs[0].dtype(), inputs[0].raw(), outputs[0].raw(), execution.stream);
  });
}

constexpr Kernel<ResampleProblem> resample[] = {{"taps", takes_resample, prepare_resample}};
constexpr Kernel<GatherProblem> gather[] = {{"gather", detail::is_gather, prepare_gather}};
constexpr Kernel<ScatterProblem> scatter[] = {{"scatter", detail::is_scatter, prepare_scatter}};
constexpr Kernel<TopKProblem> topk[] = {{"select", takes_topk, prepare_topk}};
constexpr Kernel<GridSampleProblem> grid_sample[] = {{"pixels", takes_grid_sample, prepare_grid_sample}};
constexpr Kernel<CumulativeProblem> cumulative[] = {{"scan", takes_cumulative, prepare_cumulative}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<ResampleProblem>> Kernels<ResampleProblem>::cuda() { return resample; }
template <> std::span<const Kernel<GatherProblem>> Kernels<GatherProblem>::cuda() { return gather; }
template <> std::span<const Kernel<ScatterProblem>> Kernels<ScatterProblem>::cuda() { return scatter; }
template <> std::span<const Kernel<TopKProblem>> Kernels<TopKProblem>::cuda() { return topk; }
template <> std::span<const Kernel<GridSampleProblem>> Kernels<GridSampleProblem>::cuda() { return grid_sample; }
template <> std::span<const Kernel<CumulativeProblem>> Kernels<CumulativeProblem>::cuda() { return cumulative; }
// clang-format on

}  // namespace lamina
