// The tables of a CPU's lookups and scans, nchw but for resampling.

#include <algorithm>

#include "lamina/cpu/lookup/lookup.h"
#include "lamina/kernel/kernel.h"

namespace lamina {
namespace {

using namespace cpu;

/// Any layout to itself, and images stored channels last to planes if rows of pixels are resampled.
bool takes_resample(const ResampleProblem& problem, const Preparation& p) {
  const Format from = p.input().format, to = p.output().format;
  if (from.dtype != DType::f32 || p.has_slices() || p.has_strides() || !detail::is_resample(problem, p)) return false;
  if (p.input().shape.rank() != 4) return p.is_plain();
  const bool rows = std::ranges::any_of(problem.axes, [](const ResampleProblem::Axis& axis) { return axis.dim == 3; });
  return from.layout == to.layout || (from.layout == Layout::nhwc && rows);
}

bool takes_grid_sample(const GridSampleProblem& problem, const Preparation& p) {
  return detail::is_grid_sample(problem, p) && p.is_plain();
}

bool takes_bins(const GridSampleProblem& problem, const Preparation& p) {
  const auto plain = [](const View& view) { return view.format == Format{}; };
  return detail::is_bins(problem, p) && plain(p.input()) && plain(p.inputs[1]) && plain(p.output());
}

bool takes_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  return detail::is_cumulative(problem, p) &&
         (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64);
}

constexpr Kernel<ResampleProblem> resample[] = {{"rows", takes_resample, prepare_resample}};
constexpr Kernel<GatherProblem> gather[] = {{"gather", detail::is_gather, prepare_gather}};
constexpr Kernel<ScatterProblem> scatter[] = {{"scatter", detail::is_scatter, prepare_scatter}};
constexpr Kernel<TopKProblem> topk[] = {{"sort", detail::is_topk, prepare_topk}};
constexpr Kernel<GridSampleProblem> grid_sample[] = {{"pixels", takes_grid_sample, prepare_grid_sample},
                                                     {"bins", takes_bins, prepare_bins, nullptr, reads::boxes}};
constexpr Kernel<FindProblem> find[] = {{"list", detail::is_found, prepare_find}};
constexpr Kernel<CumulativeProblem> cumulative[] = {{"scan", takes_cumulative, prepare_cumulative}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<ResampleProblem>> Kernels<ResampleProblem>::cpu() { return resample; }
template <> std::span<const Kernel<GatherProblem>> Kernels<GatherProblem>::cpu() { return gather; }
template <> std::span<const Kernel<ScatterProblem>> Kernels<ScatterProblem>::cpu() { return scatter; }
template <> std::span<const Kernel<TopKProblem>> Kernels<TopKProblem>::cpu() { return topk; }
template <> std::span<const Kernel<GridSampleProblem>> Kernels<GridSampleProblem>::cpu() { return grid_sample; }
template <> std::span<const Kernel<FindProblem>> Kernels<FindProblem>::cpu() { return find; }
template <> std::span<const Kernel<CumulativeProblem>> Kernels<CumulativeProblem>::cpu() { return cumulative; }
// clang-format on

}  // namespace lamina
