#pragma once

#include <optional>

#include "lamina/cuda/map/schedule.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/map/map_of.h"

/// Rows that run a problem as a Map: by a kernel generated for it, or by the one that walks through any.
namespace lamina::cuda {

bool takes_map(const std::optional<MapProblem>& map, const Preparation& preparation);
/// Whether one launch is enough: no block reads long rows or columns again and again, which several launches share out.
bool fits_blocks(const MapProblem& map, const Preparation& preparation);
bool pays_map(const std::optional<MapProblem>& map, const Preparation& preparation);
std::unique_ptr<Operator> prepare_map(const MapProblem& map, const Preparation& preparation);

/// Axes of a Map whose kernel is there already.
inline constexpr std::size_t most_plain_axes = most_map_axes;
bool takes_plain_map(const std::optional<MapProblem>& map, const Preparation& preparation);
std::unique_ptr<Operator> prepare_plain_map(const MapProblem& map, const Preparation& preparation);

template <class Problem>
bool takes_as_map(const Problem& problem, const Preparation& preparation) {
  return takes_map(map_of(problem, preparation), preparation);
}
template <class Problem>
std::unique_ptr<Operator> prepare_as_map(const Problem& problem, const Preparation& preparation) {
  return prepare_map(*map_of(problem, preparation), preparation);
}
template <class Problem>
bool pays_as_map(const Problem& problem, const Preparation& preparation) {
  const std::optional<MapProblem> map = map_of(problem, preparation);
  if constexpr (std::is_same_v<Problem, PoolProblem>) {
    // Where windows overlap: maxima of 3 x 3 by steps of several pixels, as classifiers begin with them, are left to a
    // kernel that no driver has to compile; so are all larger windows.
    const PoolGeometry& g = problem.geometry;
    const std::int64_t cells = std::int64_t{g.kernel_height} * g.kernel_width;
    const bool overlap =
        problem.kind != PoolKind::adaptive && (g.stride_height < g.kernel_height || g.stride_width < g.kernel_width);
    const bool steps = problem.kind == PoolKind::largest && g.stride_height > 1;
    if (overlap && cells > (steps ? largest_window - 1 : largest_window)) return false;
  }
  return pays_map(map, preparation);
}
template <class Problem>
bool takes_as_plain_map(const Problem& problem, const Preparation& preparation) {
  return takes_plain_map(map_of(problem, preparation), preparation);
}
template <class Problem>
std::unique_ptr<Operator> prepare_as_plain_map(const Problem& problem, const Preparation& preparation) {
  return prepare_plain_map(*map_of(problem, preparation), preparation);
}

template <class Problem, class... Others>
inline constexpr bool is_one_of = (std::is_same_v<Problem, Others> || ...);
template <class Problem>
inline constexpr Features map_reads = reads::slices | reads::strides | reads::chain | reads::operands |
                                      (is_one_of<Problem, MoveProblem, PointwiseProblem, ConversionProblem, NormProblem>
                                           ? reads::codes
                                           : 0);

/// A problem's rows. The first pays where it is worth it; the second is for what is left, and stands last.
template <class Problem>
inline constexpr Kernel<Problem> map_row = {"map", takes_as_map<Problem>, prepare_as_map<Problem>, pays_as_map<Problem>,
                                            map_reads<Problem>};
template <class Problem>
inline constexpr Kernel<Problem> plain_row = {"plain", takes_as_plain_map<Problem>, prepare_as_plain_map<Problem>,
                                              nullptr, map_reads<Problem>};

}  // namespace lamina::cuda
