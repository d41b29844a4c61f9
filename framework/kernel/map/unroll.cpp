// The same Map over other axes: short reductions as functions of loads, an axis as two.

#include <algorithm>

#include "lamina/kernel/map/axes.h"
#include "lamina/kernel/map/compose.h"

namespace lamina {

MapProblem unrolled(const MapProblem& problem, std::int64_t most) {
  const std::int64_t points = reduced_points(problem);
  const std::vector<unsigned> axes = dependence(problem);
  const auto differs = [&](int node) { return (axes[static_cast<std::size_t>(node)] & problem.reduced) != 0; };
  const bool comes_back = std::any_of(problem.stores.begin(), problem.stores.end(),
                                      [&](const auto& store) { return stores_each(problem, store); });
  const auto is_spread = [](const MapNode& node) { return node.is(MapReduction::spread); };
  if (problem.reduced == 0 || points > most || comes_back || std::ranges::any_of(problem.nodes, is_spread))
    return problem;
  MapProblem result = problem;
  result.loads.clear(), result.nodes.clear(), result.reduced = 0;
  // By node and, where it differs, by point; each point's coordinates are those of its number.
  std::vector<std::vector<int>> numbers(problem.nodes.size());
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const MapNode& node = problem.nodes[i];
    if (node.kind == MapNode::Kind::reduce) {
      const std::vector<int>& of = numbers[static_cast<std::size_t>(node.from[0])];
      constexpr Pointwise functions[] = {Pointwise::add, Pointwise::mul, Pointwise::max, Pointwise::min};
      int sum = of[0];
      for (std::int64_t point = 1; point < points; ++point) {
        const std::size_t at = of.size() > 1 ? static_cast<std::size_t>(point) : 0;
        sum = result.function(functions[static_cast<std::size_t>(node.reduction)], sum, of[at]);
      }
      numbers[i] = {sum};
      continue;
    }
    for (std::int64_t point = 0; point < (differs(static_cast<int>(i)) ? points : 1); ++point) {
      MapNode mine = node;
      for (int& from : mine.from) {
        if (from < 0) continue;
        const std::vector<int>& of = numbers[static_cast<std::size_t>(from)];
        from = of[of.size() > 1 ? static_cast<std::size_t>(point) : 0];
      }
      if (node.kind == MapNode::Kind::load) {
        MapView view = problem.loads[static_cast<std::size_t>(node.view)];
        const auto fix = [&](MapAxes& strides, std::int64_t& offset) {
          std::int64_t rest = point;
          for (std::size_t a = problem.extents.size(); a-- > 0;) {
            if (!problem.reduces(a)) continue;
            offset += rest % problem.extents[a] * strides[a];
            rest /= problem.extents[a], strides[a] = 0;
          }
        };
        fix(view.strides, view.offset);
        for (auto& guard : view.guards) fix(guard.strides, guard.offset);
        for (auto& table : view.tables) fix(table.strides, table.offset);
        mine.view = static_cast<int>(result.loads.size());
        result.loads.push_back(std::move(view));
      }
      result.nodes.push_back(mine);
      numbers[i].push_back(static_cast<int>(result.nodes.size()) - 1);
    }
  }
  for (MapProblem::Store& store : result.stores) store.node = numbers[static_cast<std::size_t>(store.node)][0];
  for (std::size_t a = 0; a < problem.extents.size(); ++a) {
    if (problem.reduces(a)) result.extents[a] = 1;
  }
  return simplified(result);
}

void split_axis(MapProblem& problem, std::size_t axis, std::int64_t inner) {
  const auto at = static_cast<std::ptrdiff_t>(axis);
  detail::each_strides(problem, [&](MapAxes& strides) { strides.insert(strides.begin() + at, strides[axis] * inner); });
  const unsigned below = (1u << axis) - 1, both = problem.reduces(axis) ? 3u << axis : 0u;
  problem.reduced = (problem.reduced & below) | both | (problem.reduced & ~below & ~(1u << axis)) << 1;
  problem.extents[axis] /= inner;
  problem.extents.insert(problem.extents.begin() + at + 1, inner);
}

}  // namespace lamina
