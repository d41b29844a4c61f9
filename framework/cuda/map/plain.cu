// The operators of plain.cuh: a Map as what that kernel is given.

#include "lamina/cuda/map/plain.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;

/// Calls f with a zero of the type that a Map computes in. What is moved as words of 32 bits fits into 64.
template <class F>
auto with_compute(DType compute, F&& f) {
  switch (compute) {
    case DType::f64: return f(double{});
    case DType::i64: return f(std::int64_t{});
    case DType::u32:
    case DType::u64: return f(std::uint64_t{});
    default: return f(float{});
  }
}

/// Of a simplified Map: its kept axes stand first, as those of PlainMap do.
template <class T>
std::unique_ptr<Operator> prepare_as(const MapProblem& map, const Preparation& p) {
  Constants constants(index(p));
  PlainMap<T> plain{};
  MapAxes kept, reduced;
  for (std::size_t a = 0; a < map.extents.size(); ++a) (map.reduces(a) ? reduced : kept).push_back(map.extents[a]);
  const auto add_axes = [](Axes<most_plain_axes>& axes, std::int64_t& count, const MapAxes& extents) {
    count = 1;
    for (const std::int64_t extent : extents) count *= extent;
    axes.wide = count >= narrow_count;
    for (const std::int64_t extent : extents) axes.add(extent);
  };
  add_axes(plain.kept, plain.kept_count, kept);
  add_axes(plain.reduced, plain.reduced_count, reduced);
  const int inputs = static_cast<int>(p.inputs.size() + map.parameters.size());
  for (const MapNode& node : map.nodes) {
    const auto from = [&](std::size_t k) {
      return static_cast<std::int8_t>(node.from[k] < 0 ? node.from[0] : node.from[k]);
    };
    plain.nodes[plain.node_count++] = {node.kind,
                                       node.reduction,
                                       node.function,
                                       {from(0), from(1), from(2)},
                                       static_cast<std::int8_t>(node.view),
                                       number_as<T>(node.number)};
  }
  std::vector<PlainArray<T>> loads;
  std::vector<PlainGuard> guards;
  std::vector<PlainTable> tables;
  std::int64_t largest = -1;
  for (const MapView& view : map.loads) {
    PlainArray<T> array = {PlainStep(view.strides, view.offset),
                           view.array,
                           view.dtype,
                           number_as<T>(view.fill),
                           static_cast<int>(guards.size()),
                           0,
                           static_cast<int>(tables.size()),
                           0};
    for (const auto& guard : view.guards) guards.push_back({PlainStep(guard.strides, guard.offset), guard.extent});
    for (const auto& table : view.tables) {
      tables.push_back({PlainStep(table.strides, table.offset), constants.add(*table.entries)});
    }
    array.guards_end = static_cast<int>(guards.size()), array.tables_end = static_cast<int>(tables.size());
    loads.push_back(array);
    const std::int64_t size = volume_of(map, view);
    if (size > largest && !map.extents.empty()) largest = size, plain.rows = view.strides.back() == 1;
  }
  std::vector<PlainStore> stores;
  for (const auto& [node, view] : map.stores) {
    const bool each = stores_each(map, {node, view});
    stores.push_back({PlainStep(view.strides, view.offset), inputs + view.array, node, view.dtype, each});
    plain.each = plain.each || each;
  }
  plain.store_count = static_cast<int>(stores.size());
  plain.rank = static_cast<int>(map.extents.size());
  plain.loads = constants.add(loads), plain.stores = constants.add(stores);
  plain.guards = constants.add(guards), plain.tables = constants.add(tables);
  for (std::size_t i = 0; i < map.parameters.size(); ++i) {
    plain.arrays[p.inputs.size() + i] = const_cast<void*>(constants.add(map.parameters[i]));
  }
  plain.lanes = 1;
  while (plain.lanes < plain_threads && plain.lanes < plain.reduced_count) plain.lanes *= 2;
  const Launch how = {.grid = dim3(grid_for(plain.kept_count, plain_threads / plain.lanes)),
                      .block = dim3(plain_threads)};
  return make_on_device(index(p), "map (plain)",
                        [plain, constants, how, inputs](Inputs from, Outputs to, const Execution& execution) {
                          PlainMap<T> task = plain;
                          for (std::size_t i = 0; i < from.size(); ++i)
                            task.arrays[i] = const_cast<void*>(from[i].raw());
                          for (std::size_t i = 0; i < to.size(); ++i)
                            task.arrays[static_cast<std::size_t>(inputs) + i] = to[i].raw();
                          launch_kernel(plain_map_kernel<T>, how, execution.stream, task);
                        });
}

}  // namespace

bool takes_plain_map(const std::optional<MapProblem>& map, const Preparation& p) {
  // It does not know how to join two of them.
  const auto is_spread = [](const MapNode& node) { return node.is(MapReduction::spread); };
  return map && map->nodes.size() <= most_nodes && std::ranges::none_of(map->nodes, is_spread) &&
         p.inputs.size() + map->parameters.size() + p.outputs.size() <= most_arrays &&
         simplified(*map).extents.size() <= most_plain_axes;
}

std::unique_ptr<Operator> prepare_plain_map(const MapProblem& problem, const Preparation& p) {
  const MapProblem map = simplified(problem);
  return with_compute(map.compute, [&]<class T>(T) { return prepare_as<T>(map, p); });
}

}  // namespace lamina::cuda
