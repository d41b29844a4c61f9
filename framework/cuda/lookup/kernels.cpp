// The tables of a GPU's lookups and scans.

#include "lamina/cuda/lookup/lookup.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina {
namespace {

using namespace cuda;

constexpr Kernel<ResampleProblem> resample[] = {{"taps", takes_resample, prepare_resample}};
constexpr Kernel<GatherProblem> gather[] = {{"gather", detail::is_gather, prepare_gather}};
constexpr Kernel<ScatterProblem> scatter[] = {{"scatter", detail::is_scatter, prepare_scatter}};
constexpr Kernel<TopKProblem> topk[] = {{"select", takes_topk, prepare_topk}};
constexpr Kernel<GridSampleProblem> grid_sample[] = {{"pixels", takes_grid_sample, prepare_grid_sample},
                                                     {"bins", takes_bins, prepare_bins, nullptr, reads::boxes}};
constexpr Kernel<FindProblem> find[] = {{"list", takes_find, prepare_find}, {"boxes", takes_boxes, prepare_boxes}};
constexpr Kernel<CumulativeProblem> cumulative[] = {{"scan", takes_cumulative, prepare_cumulative}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<ResampleProblem>> Kernels<ResampleProblem>::cuda() { return resample; }
template <> std::span<const Kernel<GatherProblem>> Kernels<GatherProblem>::cuda() { return gather; }
template <> std::span<const Kernel<ScatterProblem>> Kernels<ScatterProblem>::cuda() { return scatter; }
template <> std::span<const Kernel<TopKProblem>> Kernels<TopKProblem>::cuda() { return topk; }
template <> std::span<const Kernel<GridSampleProblem>> Kernels<GridSampleProblem>::cuda() { return grid_sample; }
template <> std::span<const Kernel<FindProblem>> Kernels<FindProblem>::cuda() { return find; }
template <> std::span<const Kernel<CumulativeProblem>> Kernels<CumulativeProblem>::cuda() { return cumulative; }
// clang-format on

}  // namespace lamina
