#include "lamina/kernel/map/map.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "lamina/base/error.h"
#include "lamina/kernel/map/axes.h"

namespace lamina {
namespace {

using detail::each_strides;

void put_in_order(MapAxes& numbers, const std::vector<std::size_t>& order) {
  MapAxes sorted;
  for (const std::size_t axis : order) sorted.push_back(numbers[axis]);
  numbers = std::move(sorted);
}

/// Axes in another order, or fewer of them.
void put_in_order(MapProblem& problem, const std::vector<std::size_t>& order) {
  unsigned reduced = 0;
  for (std::size_t i = 0; i < order.size(); ++i) reduced |= problem.reduces(order[i]) ? 1u << i : 0u;
  each_strides(problem, [&](MapAxes& strides) { put_in_order(strides, order); });
  put_in_order(problem.extents, order);
  problem.reduced = reduced;
}

/// Whether every view steps from the last element of axis `inner` to the next of `outer` as within `inner`.
bool are_one(const MapProblem& problem, std::size_t outer, std::size_t inner) {
  if (problem.reduces(outer) != problem.reduces(inner)) return false;
  bool same = true;
  each_strides(problem, [&](const MapAxes& strides) {
    same = same && strides[outer] == strides[inner] * problem.extents[inner];
  });
  return same;
}

}  // namespace

int MapProblem::load(MapView view) {
  loads.push_back(std::move(view));
  nodes.push_back({.kind = MapNode::Kind::load, .view = static_cast<int>(loads.size()) - 1});
  return static_cast<int>(nodes.size()) - 1;
}

int MapProblem::number(double value) {
  nodes.push_back({.kind = MapNode::Kind::number, .number = value});
  return static_cast<int>(nodes.size()) - 1;
}

int MapProblem::function(Pointwise f, int a, int b, int c) {
  nodes.push_back({.kind = MapNode::Kind::function, .from = {a, b, c}, .function = f});
  return static_cast<int>(nodes.size()) - 1;
}

int MapProblem::reduce(MapReduction r, int of) {
  nodes.push_back({.kind = MapNode::Kind::reduce, .from = {of, -1, -1}, .reduction = r});
  return static_cast<int>(nodes.size()) - 1;
}

std::vector<unsigned> dependence(const MapProblem& problem) {
  std::vector<unsigned> result;
  for (const MapNode& node : problem.nodes) {
    unsigned axes = 0;
    if (node.kind == MapNode::Kind::load) {
      const MapView& view = problem.loads[static_cast<std::size_t>(node.view)];
      const auto add = [&](const MapAxes& strides) {
        for (std::size_t a = 0; a < strides.size(); ++a) axes |= strides[a] != 0 ? 1u << a : 0u;
      };
      add(view.strides);
      for (const auto& guard : view.guards) add(guard.strides);
      for (const auto& table : view.tables) add(table.strides);
    }
    for (const int from : node.from) {
      if (from >= 0) axes |= result[static_cast<std::size_t>(from)];
    }
    result.push_back(node.kind == MapNode::Kind::reduce ? axes & ~problem.reduced : axes);
  }
  return result;
}

std::int64_t reduced_points(const MapProblem& problem) {
  std::int64_t points = 1;
  for (std::size_t a = 0; a < problem.extents.size(); ++a) points *= problem.reduces(a) ? problem.extents[a] : 1;
  return points;
}

bool stores_each(const MapProblem& problem, const MapProblem::Store& store) {
  for (std::size_t a = 0; a < problem.extents.size(); ++a) {
    if (problem.reduces(a) && problem.extents[a] > 1 && store.view.strides[a] != 0) return true;
  }
  return false;
}

std::int64_t volume_of(const MapProblem& problem, const MapView& view) {
  std::int64_t volume = 1;
  for (std::size_t a = 0; a < problem.extents.size(); ++a) volume *= view.strides[a] == 0 ? 1 : problem.extents[a];
  return volume;
}

MapProblem simplified(const MapProblem& problem) {
  MapProblem result = problem;
  std::vector<std::size_t> order;
  for (std::size_t a = 0; a < result.extents.size(); ++a) {
    if (result.extents[a] != 1) order.push_back(a);
  }
  const MapView* largest = nullptr;
  for (const MapView& view : problem.loads) {
    if (largest == nullptr || volume_of(problem, view) > volume_of(problem, *largest)) largest = &view;
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (problem.reduces(a) != problem.reduces(b)) return problem.reduces(b);
    const MapView* by = problem.reduces(a) || problem.stores.empty() ? largest : &problem.stores[0].view;
    return by != nullptr && std::abs(by->strides[a]) > std::abs(by->strides[b]);
  });
  put_in_order(result, order);
  for (MapNode& node : result.nodes) {  // a reduction of one element is that element
    if (node.kind != MapNode::Kind::reduce || result.reduced != 0) continue;
    node.kind = MapNode::Kind::function, node.function = Pointwise::identity;
  }
  for (std::size_t inner = result.extents.size(); inner-- > 1;) {
    const std::size_t outer = inner - 1;
    if (!are_one(result, outer, inner)) continue;
    result.extents[inner] *= result.extents[outer];
    order.resize(result.extents.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(outer));
    put_in_order(result, order);
  }
  return result;
}

void validate(const MapProblem& problem) {
  using detail::fail;
  const std::size_t rank = problem.extents.size();
  if (rank > most_map_axes) fail("a map has up to ", most_map_axes, " axes, not ", rank);
  for (const std::int64_t extent : problem.extents) {
    if (extent < 0) fail("an axis of a map has no extent of ", extent);
  }
  each_strides(problem, [&](const MapAxes& strides) {
    if (strides.size() != rank) fail("a view of a map has ", strides.size(), " strides for ", rank, " axes");
  });
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    const MapNode& node = problem.nodes[i];
    for (const int from : node.from) {
      if (from >= static_cast<int>(i)) fail("node ", i, " of a map reads node ", from, ", which is not before it");
    }
    const bool reads = node.kind == MapNode::Kind::function || node.kind == MapNode::Kind::reduce;
    if (reads && node.from[0] < 0) fail("node ", i, " of a map reads nothing");
    if (node.is(MapReduction::spread) && !is_float(problem.compute)) {
      fail("node ", i, " of a map is a spread in ", problem.compute, ", not in f32 or f64");
    }
    if (node.kind == MapNode::Kind::load && (node.view < 0 || node.view >= static_cast<int>(problem.loads.size()))) {
      fail("node ", i, " of a map loads view ", node.view, " of ", problem.loads.size());
    }
  }
  const std::vector<unsigned> axes = dependence(problem);
  for (const MapProblem::Store& store : problem.stores) {
    if (store.node < 0 || store.node >= static_cast<int>(axes.size())) fail("a map has no node ", store.node);
    if (!store.view.is_dense()) fail("a store of a map has guards or tables");
    for (std::size_t a = 0; a < rank; ++a) {
      const bool differs = ((axes[static_cast<std::size_t>(store.node)] >> a) & 1u) != 0;
      const bool kept = !problem.reduces(a) && problem.extents[a] > 1;
      if (store.view.strides[a] == 0 && ((differs && problem.extents[a] > 1) || kept)) {
        fail("a store of a map writes one element for all points of axis ", a);
      }
    }
  }
}

}  // namespace lamina
