#include "lamina/kernel/map/stages.h"

#include <algorithm>
#include <bit>

#include "lamina/kernel/map/axes.h"

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

/// Which axes arrays between stages have, and how many elements one of them.
struct Between {
  MapAxes strides;
  std::int64_t elements = 1;

  /// Kept axes, and some of the reduced ones.
  Between(const MapProblem& map, unsigned some) : strides(map.extents.size()) {
    for (std::size_t a = strides.size(); a-- > 0;) {
      if (!map.reduces(a) || ((some >> a) & 1u) != 0) strides[a] = elements, elements *= map.extents[a];
    }
  }
  MapView view(const MapProblem& map, std::size_t number) const {
    return {.dtype = map.compute, .offset = elements * static_cast<std::int64_t>(number), .strides = strides};
  }
};

/// A stage that stores what some nodes are.
MapProblem stage_of(MapProblem map, const std::vector<std::size_t>& nodes, const Between& to) {
  map.stores.clear();
  for (const std::size_t i : nodes) map.store(static_cast<int>(i), to.view(map, map.stores.size()));
  return map;
}

/// Reduced axes that arrays between stages have all the same: that of few elements, if a power of two of them make
/// packs of several rows. Whoever reads such a pack finds each element's number beside the others'.
unsigned axes_between_stages(const MapProblem& map) {
  const unsigned few = few_beside_next_row(map);
  if (few == 0) return 0;
  const std::int64_t elements = map.extents[static_cast<std::size_t>(std::countr_zero(few))];
  return std::has_single_bit(static_cast<std::uint64_t>(elements)) ? few : 0;
}

}  // namespace

unsigned few_beside_next_row(const MapProblem& map) {
  constexpr std::int64_t sector = 32, far = 512;
  if (map.loads.empty()) return 0;
  const MapView& largest =
      *std::ranges::max_element(map.loads, {}, [&](const MapView& v) { return volume_of(map, v); });
  for (std::size_t a = 0; a < map.extents.size(); ++a) {
    const std::int64_t few = map.extents[a];
    if (!map.reduces(a) || largest.strides[a] != 1 || few < 2 ||
        few * static_cast<std::int64_t>(size_of(largest.dtype)) >= sector)
      continue;
    bool next_row = false;
    for (std::size_t k = 0; k < map.extents.size(); ++k)
      next_row = next_row || (!map.reduces(k) && map.extents[k] > 1 && largest.strides[k] == few);
    if (next_row && reduced_points(map) / few >= far) return 1u << a;
  }
  return 0;
}

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
  const std::vector<unsigned> along = dependence(problem);
  const auto waits = [&](std::size_t i) { return levels[i] > 0 && (along[i] & problem.reduced) == 0; };
  std::vector<bool> given(levels.size());  // nodes read by what differs from point to point, or by a later level
  for (const auto& store : problem.stores) given[static_cast<std::size_t>(store.node)] = true;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    for (const int from : problem.nodes[i].from) {
      const auto before = static_cast<std::size_t>(std::max(from, 0));
      if (from >= 0 && (!waits(i) || levels[i] > levels[before])) given[before] = true;
    }
  }
  const Between between(problem, axes_between_stages(problem));
  for (std::size_t level = 1; level <= std::ranges::max(levels); ++level) {
    std::vector<std::size_t> nodes;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      if (waits(i) && given[i] && levels[i] == level) nodes.push_back(i);
    }
    MapProblem stage = rest;
    stage.extents = problem.extents, stage.reduced = problem.reduced;
    stage = stage_of(std::move(stage), nodes, between);
    result.elements.push_back(between.elements * std::ssize(stage.stores));
    prune(stage);
    result.maps.push_back(std::move(stage));
    for (std::size_t number = 0; number < nodes.size(); ++number) {
      MapView view = between.view(problem, number);
      view.array = first + static_cast<int>(result.maps.size()) - 1;
      rest.loads.push_back(view);
      rest.nodes[nodes[number]] = {.kind = MapNode::Kind::load, .view = static_cast<int>(rest.loads.size()) - 1};
    }
  }
  prune(rest);
  result.maps.push_back(std::move(rest));
  return result;
}

}  // namespace lamina
