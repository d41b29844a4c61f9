#include "lamina/kernel/map/stages.h"

#include <algorithm>

namespace lamina {
namespace {

/// Leaves out nodes that nothing stored needs, and loads that no node is of.
void prune(MapProblem& map) {
  std::vector<bool> needed(map.nodes.size());
  for (const auto& store : map.stores) needed[static_cast<std::size_t>(store.node)] = true;
  for (std::size_t i = map.nodes.size(); i-- > 0;) {
    for (const int from : map.nodes[i].from) {
      if (needed[i] && from >= 0) needed[static_cast<std::size_t>(from)] = true;
    }
  }
  std::vector<int> place(map.nodes.size(), -1);
  const std::vector<MapNode> nodes = std::move(map.nodes);
  const std::vector<MapView> loads = std::move(map.loads);
  map.nodes.clear(), map.loads.clear();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!needed[i]) continue;
    MapNode node = nodes[i];
    for (int& from : node.from) from = from < 0 ? from : place[static_cast<std::size_t>(from)];
    if (node.kind == MapNode::Kind::load) {
      map.loads.push_back(loads[static_cast<std::size_t>(node.view)]);
      node.view = static_cast<int>(map.loads.size()) - 1;
    }
    place[i] = static_cast<int>(map.nodes.size());
    map.nodes.push_back(node);
  }
  for (auto& store : map.stores) store.node = place[static_cast<std::size_t>(store.node)];
}

/// For each node, how many reductions behind each other it waits for.
std::vector<std::size_t> levels_of(const MapProblem& map) {
  std::vector<std::size_t> levels;
  for (const MapNode& node : map.nodes) {
    std::size_t level = 0;
    for (const int from : node.from) level = from < 0 ? level : std::max(level, levels[static_cast<std::size_t>(from)]);
    levels.push_back(node.kind == MapNode::Kind::reduce ? level + 1 : level);
  }
  return levels;
}

/// A sum of squared distances from the mean waits for no mean.
void use_spreads(MapProblem& map) {
  const auto points = static_cast<double>(reduced_points(map));
  const auto at = [&](int i) -> const MapNode& { return map.nodes[static_cast<std::size_t>(i)]; };
  const auto is_number = [&](int i, double number) {
    return at(i).kind == MapNode::Kind::number && at(i).number == number;
  };
  const auto is_mean = [&](const MapNode& node, int of) {
    const bool divides = node.is(Pointwise::div) && is_number(node.from[1], points);
    const bool multiplies = node.is(Pointwise::mul) && is_number(node.from[1], 1 / points);
    return (divides || multiplies) && at(node.from[0]).is(MapReduction::sum) && at(node.from[0]).from[0] == of;
  };
  if (!is_float(map.compute)) return;
  for (MapNode& node : map.nodes) {
    if (!node.is(MapReduction::sum)) continue;
    const MapNode& square = at(node.from[0]);
    if (!square.is(Pointwise::mul) || square.from[0] != square.from[1]) continue;
    const MapNode& apart = at(square.from[0]);
    if (!apart.is(Pointwise::sub) || !is_mean(at(apart.from[1]), apart.from[0])) continue;
    node.reduction = MapReduction::spread, node.from[0] = apart.from[0];
  }
}

}  // namespace

MapStages stages_of(const MapProblem& of, int first) {
  MapStages result;
  MapProblem problem = of;
  use_spreads(problem);
  MapProblem rest = problem;
  rest.reduced = 0;
  for (std::size_t a = 0; a < problem.extents.size(); ++a) {
    const auto steps = [&](const auto& store) { return store.view.strides[a] != 0; };
    const auto stepping = std::ranges::count_if(problem.stores, steps);
    if (!problem.reduces(a) || stepping == std::ssize(problem.stores)) continue;
    if (stepping > 0 && problem.extents[a] > 1) return {{of}, {}};  // a single number, and one for each point
    rest.extents[a] = 1;
  }
  const std::vector<std::size_t> levels = levels_of(problem);
  MapAxes kept(problem.extents.size());
  std::int64_t points = 1;
  for (std::size_t a = kept.size(); a-- > 0;) {
    if (!problem.reduces(a)) kept[a] = points, points *= problem.extents[a];
  }
  for (std::size_t level = 1; level <= std::ranges::max(levels); ++level) {
    MapProblem stage = rest;
    stage.extents = problem.extents, stage.reduced = problem.reduced;
    stage.stores.clear();
    for (std::size_t i = 0; i < levels.size(); ++i) {
      if (problem.nodes[i].kind != MapNode::Kind::reduce || levels[i] != level) continue;
      MapView view = {
          .dtype = problem.compute, .offset = points * static_cast<std::int64_t>(stage.stores.size()), .strides = kept};
      stage.store(static_cast<int>(i), view);
      view.array = first + static_cast<int>(level) - 1;
      rest.loads.push_back(view);
      rest.nodes[i] = {.kind = MapNode::Kind::load, .view = static_cast<int>(rest.loads.size()) - 1};
    }
    result.elements.push_back(points * static_cast<std::int64_t>(stage.stores.size()));
    prune(stage);
    result.maps.push_back(std::move(stage));
  }
  prune(rest);
  result.maps.push_back(std::move(rest));
  return result;
}

}  // namespace lamina
