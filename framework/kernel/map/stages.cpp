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

/// A stage that computes some reductions over all reduced axes but those that are `apart`; a spread's sum beside it.
MapProblem first_stage(MapProblem map, const std::vector<std::size_t>& reductions, unsigned apart, const Between& to) {
  map.reduced &= ~apart;
  map.stores.clear();
  for (const std::size_t i : reductions) {
    const MapNode node = map.nodes[i];
    map.store(static_cast<int>(i), to.view(map, map.stores.size()));
    if (apart != 0 && node.is(MapReduction::spread))
      map.store(map.reduce(MapReduction::sum, node.from[0]), to.view(map, map.stores.size()));
  }
  return map;
}

/// The stage behind it: over the axes that were left, of array `from`. Each row's numbers are stored for each element
/// of these axes, so that whoever reads them finds them side by side.
MapProblem second_stage(const MapProblem& map, const std::vector<std::size_t>& reductions, unsigned apart, int from,
                        const Between& between) {
  MapProblem result{.extents = map.extents, .reduced = apart, .compute = map.compute};
  double points = 1;  // of each of the first stage's
  for (std::size_t a = 0; a < map.extents.size(); ++a) {
    if (!map.reduces(a) || result.reduces(a)) continue;
    points *= static_cast<double>(map.extents[a]), result.extents[a] = 1;
  }
  const auto next = [&] {
    MapView view = between.view(map, result.loads.size());
    view.array = from;
    return result.load(view);
  };
  for (const std::size_t i : reductions) {
    const MapReduction kind = map.nodes[i].reduction;
    int value = next();
    if (kind == MapReduction::spread) {  // within each, and of their means around the mean of all (Chan et al., 1979)
      const int mean = result.function(Pointwise::div, next(), result.number(points));
      const int around = result.function(Pointwise::mul, result.reduce(kind, mean), result.number(points));
      value = result.function(Pointwise::add, result.reduce(MapReduction::sum, value), around);
    } else {
      value = result.reduce(kind, value);
    }
    result.store(value, between.view(map, result.stores.size()));
  }
  return result;
}

/// Axes that are left to a second stage, a bit each; `pieces`: the one of them that counts pieces of another.
struct Apart {
  unsigned axes = 0, pieces = 0;
};

/// The interleaved axes, `few`, and, where the longest of the other reduced axes is long, what counts its pieces of up
/// to 128 points. What pieces know then meets in the second stage, and not across the blocks of the first.
Apart left_apart(MapProblem& map, unsigned few) {
  constexpr std::int64_t longest = 128, least = 32;
  const std::size_t rank = map.extents.size();
  std::size_t axis = rank;
  for (std::size_t a = 0; a < rank; ++a) {
    const bool other = map.reduces(a) && ((few >> a) & 1u) == 0;
    if (other && (axis == rank || map.extents[a] > map.extents[axis])) axis = a;
  }
  if (axis == rank || rank == most_map_axes) return {few};
  std::int64_t piece = longest;
  while (piece >= least && map.extents[axis] % piece != 0) --piece;
  if (piece < least || piece == map.extents[axis]) return {few};
  const auto insert = [&](MapAxes& axes, std::int64_t inner) {
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(axis) + 1, inner);
  };
  map.extents[axis] /= piece;
  insert(map.extents, piece);
  detail::each_strides(map, [&](MapAxes& strides) {
    insert(strides, strides[axis]);
    strides[axis] *= piece;
  });
  const unsigned pieces = 1u << axis;
  const auto moved = [&](unsigned axes) { return (axes & (pieces - 1)) | (axes & ~(pieces - 1)) << 1; };
  map.reduced = moved(map.reduced) | pieces;
  return {moved(few) | pieces, pieces};
}

}  // namespace

unsigned interleaved_axes(const MapProblem& map) {
  constexpr std::int64_t sector = 32, far = 512;
  const auto comes_back = [&](const auto& store) { return stores_each(map, store); };
  if (map.loads.empty() || std::ranges::none_of(map.stores, comes_back)) return 0;
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
  const unsigned few = interleaved_axes(problem);
  const auto [apart, pieces] = few == 0 ? Apart() : left_apart(problem, few);
  MapProblem rest = problem;
  rest.reduced = 0;
  for (std::size_t a = 0; a < problem.extents.size(); ++a) {
    const auto steps = [&](const auto& store) { return store.view.strides[a] != 0; };
    const auto stepping = std::ranges::count_if(problem.stores, steps);
    if (!problem.reduces(a) || stepping == std::ssize(problem.stores)) continue;
    if (stepping > 0 && problem.extents[a] > 1) return {{of}, {}};  // a single number, and one for each point
    rest.extents[a] = 1;
  }
  const Between between(problem, apart);
  const auto add = [&](MapProblem stage) {
    result.elements.push_back(between.elements * std::ssize(stage.stores));
    prune(stage);
    result.maps.push_back(std::move(stage));
    return first + static_cast<int>(result.maps.size()) - 1;  // which input of the others it writes
  };
  const std::vector<std::size_t> levels = levels_of(problem);
  for (std::size_t level = 1; level <= std::ranges::max(levels); ++level) {
    std::vector<std::size_t> reductions;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      if (problem.nodes[i].kind == MapNode::Kind::reduce && levels[i] == level) reductions.push_back(i);
    }
    MapProblem stage = rest;
    stage.extents = problem.extents, stage.reduced = problem.reduced;
    int array = add(first_stage(std::move(stage), reductions, apart, between));
    if (apart != 0) array = add(second_stage(problem, reductions, apart, array, between));
    for (std::size_t number = 0; number < reductions.size(); ++number) {
      MapView view = between.view(problem, number);
      view.array = array;
      if (pieces != 0) view.strides[static_cast<std::size_t>(std::countr_zero(pieces))] = 0;  // all have the same
      rest.loads.push_back(view);
      rest.nodes[reductions[number]] = {.kind = MapNode::Kind::load, .view = static_cast<int>(rest.loads.size()) - 1};
    }
  }
  prune(rest);
  result.maps.push_back(std::move(rest));
  return result;
}

}  // namespace lamina
