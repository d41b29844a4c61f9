// Short reductions as functions of loads.

#include <algorithm>

#include "lamina/kernel/map/axes.h"
#include "lamina/kernel/map/compose.h"

namespace lamina {
namespace {

/// A Map in which what is reduced has few points: node by node, each of those that differ along reduced axes once a
/// point. A point's number counts through the reduced axes, the last first.
class Unrolling {
 public:
  Unrolling(const MapProblem& problem, std::int64_t points)
      : problem_(problem), points_(points), axes_(dependence(problem)), numbers_(problem.nodes.size()) {
    result_ = problem;
    result_.loads.clear(), result_.nodes.clear(), result_.stores.clear(), result_.reduced = 0;
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) add(problem.nodes[i], i);
    for (std::size_t a = 0; a < problem.extents.size(); ++a) {
      if (problem.reduces(a)) result_.extents[a] = 1;
    }
  }

  /// With what is stored at one of the points.
  MapProblem at(std::int64_t point) const {
    MapProblem map = result_;
    for (MapProblem::Store store : problem_.stores) {
      store.node = number(store.node, point);
      fix(store.view.strides, store.view.offset, point);
      map.stores.push_back(std::move(store));
    }
    return simplified(map);
  }

 private:
  bool differs(std::size_t node) const { return (axes_[node] & problem_.reduced) != 0; }
  int number(int node, std::int64_t point) const {
    const std::vector<int>& of = numbers_[static_cast<std::size_t>(node)];
    return of[of.size() > 1 ? static_cast<std::size_t>(point) : 0];
  }

  /// Takes the reduced axes out of a place, at one of the points.
  void fix(MapAxes& strides, std::int64_t& offset, std::int64_t point) const {
    for (std::size_t a = problem_.extents.size(); a-- > 0;) {
      if (!problem_.reduces(a)) continue;
      offset += point % problem_.extents[a] * strides[a];
      point /= problem_.extents[a], strides[a] = 0;
    }
  }

  void add(const MapNode& node, std::size_t i) {
    if (node.kind == MapNode::Kind::reduce) {
      constexpr Pointwise functions[] = {Pointwise::add, Pointwise::mul, Pointwise::max, Pointwise::min};
      int sum = number(node.from[0], 0);
      for (std::int64_t point = 1; point < points_; ++point) {
        sum = result_.function(functions[static_cast<std::size_t>(node.reduction)], sum, number(node.from[0], point));
      }
      numbers_[i] = {sum};
      return;
    }
    for (std::int64_t point = 0; point < (differs(i) ? points_ : 1); ++point) {
      MapNode mine = node;
      for (int& from : mine.from) from = from < 0 ? from : number(from, point);
      if (node.kind == MapNode::Kind::load) {
        MapView view = problem_.loads[static_cast<std::size_t>(node.view)];
        fix(view.strides, view.offset, point);
        for (auto& guard : view.guards) fix(guard.strides, guard.offset, point);
        for (auto& table : view.tables) fix(table.strides, table.offset, point);
        mine.view = static_cast<int>(result_.loads.size());
        result_.loads.push_back(std::move(view));
      }
      result_.nodes.push_back(mine);
      numbers_[i].push_back(static_cast<int>(result_.nodes.size()) - 1);
    }
  }

  const MapProblem& problem_;
  const std::int64_t points_;
  const std::vector<unsigned> axes_;
  MapProblem result_;
  std::vector<std::vector<int>> numbers_;  // by node, and point where it differs
};

}  // namespace

std::vector<MapProblem> unrolled(const MapProblem& problem, std::int64_t most) {
  std::int64_t points = 1;
  for (std::size_t a = 0; a < problem.extents.size(); ++a) points *= problem.reduces(a) ? problem.extents[a] : 1;
  if (problem.reduced == 0 || points > most) return {problem};
  const bool at_each = std::any_of(problem.stores.begin(), problem.stores.end(), [&](const MapProblem::Store& store) {
    return (dependence(problem)[static_cast<std::size_t>(store.node)] & problem.reduced) != 0;
  });
  const Unrolling unrolling(problem, points);
  std::vector<MapProblem> result;
  for (std::int64_t point = 0; point < (at_each ? points : 1); ++point) result.push_back(unrolling.at(point));
  return result;
}

}  // namespace lamina
