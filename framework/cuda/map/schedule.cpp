#include "lamina/cuda/map/schedule.h"

#include <algorithm>
#include <bit>

#include "lamina/base/math.h"
#include "lamina/kernel/map/stages.h"

namespace lamina::cuda {
namespace {

constexpr std::int64_t warp = 32, block = 256, most_parts = 64;
constexpr std::int64_t in_flight = 4;       // steps of a thread that stand in the text one after the other
constexpr std::int64_t least_beside = 16;   // packs of neighbouring threads: of fewer, accesses bring unread bytes
constexpr std::int64_t few_packs = 128;     // of a multiprocessor
constexpr std::int64_t few_threads = 512;   // of a multiprocessor: all find room at once, whatever registers they need
constexpr std::int64_t least_of_part = 32;  // elements of each column: what a part knows is written and read in f32

std::int64_t power_of_two_from(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

bool looks_at_each(const MapView& view, std::size_t axis) {
  const auto along = [axis](const auto& one) { return one.strides[axis] != 0; };
  return std::any_of(view.guards.begin(), view.guards.end(), along) ||
         std::any_of(view.tables.begin(), view.tables.end(), along);
}

struct Views {
  const MapProblem& problem;
  const MapAlignment& alignment;

  template <class F>
  void each(F&& f) const {
    for (const MapView& view : problem.loads) f(view, alignment.inputs[static_cast<std::size_t>(view.array)]);
    for (const auto& store : problem.stores) {
      f(store.view, alignment.outputs[static_cast<std::size_t>(store.view.array)]);
    }
  }
};

/// The axis along which the most bytes lie side by side.
int vector_axis(const MapProblem& problem, const Views& views) {
  int best = static_cast<int>(problem.extents.size()) - 1;
  double most = 0;
  for (std::size_t axis = 0; axis < problem.extents.size(); ++axis) {
    double bytes = 0;
    views.each([&](const MapView& view, std::size_t) {
      if (view.strides[axis] != 1 || looks_at_each(view, axis)) return;
      bytes += static_cast<double>(size_of(view.dtype)) * static_cast<double>(volume_of(problem, view));
    });
    if (bytes > most) most = bytes, best = static_cast<int>(axis);
  }
  return best;
}

/// Elements of 16 bytes of the narrowest array along an axis, or fewer if some do not lie so: if none do, where nothing
/// is reduced and a thread may read some of its elements one by one.
int pack_along(const MapProblem& problem, const Views& views, int axis) {
  std::size_t narrowest = 16;
  views.each([&](const MapView& view, std::size_t) {
    if (view.strides[static_cast<std::size_t>(axis)] == 1) narrowest = std::min(narrowest, size_of(view.dtype));
  });
  auto pack = static_cast<int>(16 / narrowest);
  const auto fits = [&] {
    if (problem.extents[static_cast<std::size_t>(axis)] % pack != 0) return false;
    bool all = true, some = false;
    views.each([&](const MapView& view, std::size_t alignment) {
      const bool together =
          view.strides[static_cast<std::size_t>(axis)] == 1 && !looks_at_each(view, static_cast<std::size_t>(axis));
      const int words = std::min<int>(pack, 16 / static_cast<int>(size_of(view.dtype)));
      const bool fit = together && most_packed(view, axis, alignment) >= words;
      all = all && (!together || fit), some = some || fit;
    });
    return problem.reduced == 0 ? all || some : all;
  };
  while (pack > 1 && !fits()) pack /= 2;
  return pack;
}

/// Whether a reduction waits for another, or a result that waits for one is stored for each of its points.
bool comes_back(const MapProblem& problem, const MapSchedule& schedule) {
  std::vector<bool> waits;
  for (const MapNode& node : problem.nodes) {
    bool any = false;
    for (const int from : node.from) any = any || (from >= 0 && waits[static_cast<std::size_t>(from)]);
    if (node.kind == MapNode::Kind::reduce && any) return true;
    waits.push_back(any || node.kind == MapNode::Kind::reduce);
  }
  return std::any_of(problem.stores.begin(), problem.stores.end(),
                     [&](const MapProblem::Store& store) { return stores_each(problem, store, schedule); });
}

/// The longest kept axis, beside the packs' own, along which something loaded or computed stays the same; -1: none.
int axis_to_repeat(const MapProblem& problem, int vector) {
  const std::vector<unsigned> axes = dependence(problem);
  int best = -1;
  for (std::size_t a = 0; a < problem.extents.size(); ++a) {
    if (static_cast<int>(a) == vector || problem.reduces(a)) continue;
    bool common = false;
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      common = common || (problem.nodes[i].kind != MapNode::Kind::number && ((axes[i] >> a) & 1u) == 0);
    }
    if (common && (best < 0 || problem.extents[a] > problem.extents[static_cast<std::size_t>(best)]))
      best = static_cast<int>(a);
  }
  return best;
}

/// A square of elements of both axes, where loads lie side by side along one and results along another.
bool turn(const MapProblem& problem, const Views& views, MapSchedule& result) {
  if (problem.stores.empty()) return false;
  const MapAxes& strides = problem.stores[0].view.strides;
  const auto along = std::find(strides.begin(), strides.end(), 1);
  if (along == strides.end()) return false;
  const auto vector = static_cast<int>(along - strides.begin());
  std::size_t widest = 1;
  for (const MapView& view : problem.loads) {
    for (std::size_t axis = 0; axis < view.strides.size(); ++axis) {
      const bool both = static_cast<int>(axis) != vector && view.strides[axis] == 1 &&
                        view.strides[static_cast<std::size_t>(vector)] > 1;
      if (both && view.is_dense() && (result.staged < 0 || result.staged == static_cast<int>(axis))) {
        result.staged = static_cast<int>(axis), widest = std::max(widest, size_of(view.dtype));
      }
    }
  }
  constexpr std::int64_t least = 8;  // in shorter rows a square is mostly empty
  if (result.staged < 0 || problem.extents[static_cast<std::size_t>(vector)] < least ||
      problem.extents[static_cast<std::size_t>(result.staged)] < least) {
    result.staged = -1;
    return false;
  }
  result.vector = vector;
  constexpr int smallest = 16;
  result.tile = widest <= 2 ? 64 : widest == 4 ? 32 : smallest;
  const auto bytes = [&] {
    std::int64_t all = 0;
    for (const MapView& view : problem.loads) all += is_staged(view, result) ? result.tile * pitch_of(view, result) : 0;
    return all;
  };
  while (result.tile > smallest && bytes() > most_shared) result.tile /= 2;
  if (bytes() > most_shared) {
    result = {.name = result.name};
    return false;
  }
  result.name = "turn";
  result.pack = pack_along(problem, views, vector);
  result.pieces = result.steps = std::max<std::int64_t>(1, result.tile * (result.tile / result.pack) / block);
  result.threads = static_cast<int>(std::min<std::int64_t>(block, result.tile * (result.tile / result.pack)));
  result.staged_pack = std::min(pack_along(problem, views, result.staged), result.tile * result.tile / result.threads);
  return true;
}

/// Where a short axis lies side by side in some views, and packs of another in the rest.
bool interleave(const MapProblem& problem, const Views& views, MapSchedule& result) {
  constexpr std::int64_t longest = 8;
  for (std::size_t axis = 0; axis < problem.extents.size(); ++axis) {
    if (problem.extents[axis] > longest) continue;
    result.repeated = static_cast<int>(axis), result.steps = result.pieces = problem.extents[axis];
    result.interleaved = true;
    for (std::size_t along = 0; along < problem.extents.size(); ++along) {
      result.vector = static_cast<int>(along);
      bool all = along != axis, some = false, others = false;
      views.each([&](const MapView& view, std::size_t) {
        const bool mixed = is_interleaved(view, result);
        some = some || mixed;
        others = others || view.strides[along] == 1;
        all = all && (mixed || view.strides[along] <= 1);
      });
      if (!all || !some || !others) continue;
      result.pack = pack_along(problem, views, result.vector);
      if (result.pack > 1) return true;
    }
  }
  result = {.name = result.name};
  return false;
}

}  // namespace

bool stores_each(const MapProblem& problem, const MapProblem::Store& store, const MapSchedule& schedule) {
  const auto axis = static_cast<std::size_t>(std::max(schedule.vector, 0));
  const bool whole = schedule.vector >= 0 && problem.reduces(axis) && problem.extents[axis] == schedule.pack;
  if (!whole) return lamina::stores_each(problem, store);
  MapProblem::Store once = store;
  once.view.strides[axis] = 0;
  return lamina::stores_each(problem, once);
}

bool is_staged(const MapView& view, const MapSchedule& schedule) {
  return schedule.staged >= 0 && view.is_dense() && view.strides[static_cast<std::size_t>(schedule.staged)] == 1 &&
         view.strides[static_cast<std::size_t>(schedule.vector)] > 1;
}

std::int64_t pitch_of(const MapView& view, const MapSchedule& schedule) {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  return schedule.tile * size + std::max<std::int64_t>(size, 4);
}

bool is_interleaved(const MapView& view, const MapSchedule& schedule) {
  return schedule.interleaved && view.is_dense() && view.strides[static_cast<std::size_t>(schedule.repeated)] == 1 &&
         view.strides[static_cast<std::size_t>(schedule.vector)] == schedule.steps;
}

int most_interleaved(const MapView& view, const MapSchedule& schedule, std::size_t alignment) {
  MapView blocks = view;  // of which each is one
  blocks.strides[static_cast<std::size_t>(schedule.vector)] = schedule.steps * schedule.pack;
  return most_packed(blocks, schedule.repeated, alignment);
}

int most_packed(const MapView& view, int axis, std::size_t alignment) {
  if (axis < 0) return 1;
  const auto at = static_cast<std::size_t>(axis);
  if (view.strides[at] != 1 || looks_at_each(view, at)) return 1;
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  std::int64_t bytes = std::min<std::int64_t>(16, static_cast<std::int64_t>(alignment));
  const auto keep = [&](std::int64_t elements) {
    while (elements * size % bytes != 0) bytes /= 2;
  };
  keep(view.offset);
  for (std::size_t a = 0; a < view.strides.size(); ++a) {
    if (a != at) keep(view.strides[a]);
  }
  for (const MapView::Table& table : view.tables) {
    for (const std::int64_t entry : *table.entries) keep(std::max<std::int64_t>(entry, 0));
  }
  return static_cast<int>(std::max<std::int64_t>(bytes / size, 1));
}

MapSchedule schedule(const MapProblem& problem, const MapAlignment& alignment, int processors) {
  MapSchedule result{.name = "map"};
  if (problem.extents.empty()) return result;
  const Views views{problem, alignment};
  if (problem.reduced == 0 && (interleave(problem, views, result) || turn(problem, views, result))) return result;
  result.vector = vector_axis(problem, views);
  result.pack = pack_along(problem, views, result.vector);
  const auto along = static_cast<std::size_t>(result.vector);
  const bool of_reduced = problem.reduces(along);
  // A row of a few elements is a thread's, and the threads beside it have the next rows.
  result.adjacent = of_reduced && ((few_beside_next_row(problem) >> along) & 1u) == 0;
  std::int64_t kept = 1, reduced = 1;
  for (std::size_t a = 0; a < problem.extents.size(); ++a) (problem.reduces(a) ? reduced : kept) *= problem.extents[a];
  (of_reduced ? reduced : kept) /= result.pack;
  // Of few points a thread has fewer, which changes no sum's order: a long text that runs once is what takes the time.
  const auto share_out = [&](const auto& are_few) {
    for (; !of_reduced && result.pack > 1 && are_few(); kept *= 2) result.pack /= 2;
  };
  if (reduced == 1) {
    share_out([&] { return kept < few_packs * processors; });
    const int axis = axis_to_repeat(problem, result.vector);
    if (axis < 0) return result;
    std::int64_t turns = in_flight;
    while (turns > 1 && kept / turns < 8 * block * processors) turns /= 2;
    turns = std::min(turns, problem.extents[static_cast<std::size_t>(axis)]);
    if (turns > 1) result.repeated = axis, result.steps = turns;
    result.early = kept / turns <= few_threads * processors;
    return result;
  }
  std::int64_t enough = 0;  // of a part
  if (result.adjacent) {
    result.name = "rows";
    result.lanes = std::min(block, power_of_two_from(detail::ceil_div(reduced, in_flight)));
    enough = result.lanes * 2 * in_flight;
  } else {
    result.name = !of_reduced && reduced <= largest_window ? "window" : "columns";
    result.lanes = std::min(block / (of_reduced ? warp : least_beside), power_of_two_from(reduced / (2 * in_flight)));
    // To meet takes a thread as long as many steps, and much longer where spreads of each element do.
    const bool of_spreads =
        std::ranges::any_of(problem.nodes, [](const MapNode& node) { return node.is(MapReduction::spread); });
    std::int64_t steps = of_reduced ? 2 * in_flight : of_spreads ? 4 * in_flight : in_flight;
    while (of_reduced && steps > in_flight && reduced % (result.lanes * steps) != 0)
      --steps;  // so that no thread has a step too many, if that can be
    enough = std::max(result.lanes * steps, least_of_part);
  }
  if (!comes_back(problem, result)) result.parts = std::clamp<std::int64_t>(reduced / enough, 1, most_parts);
  result.steps = detail::ceil_div(reduced, result.parts * result.lanes);
  result.pieces = result.steps;
  if (result.steps > largest_window) {
    result.pieces = in_flight;
    result.steps = detail::ceil_div(result.steps, in_flight) * in_flight;
  }
  result.parts = detail::ceil_div(reduced, result.steps * result.lanes);
  share_out([&] { return 2 * kept * result.lanes * result.parts <= few_threads * processors; });
  const std::int64_t all = kept * result.lanes;
  result.early = all * result.parts <= few_threads * processors;
  // Small blocks reach more multiprocessors.
  const std::int64_t least = std::max(2 * warp, result.lanes);
  const auto too_large = [&] { return all < (result.adjacent ? result.threads * processors : result.threads); };
  while (result.threads > least && too_large()) result.threads /= 2;
  return result;
}

}  // namespace lamina::cuda
