// A Map as it is written down, by a kernel that is there already: where the driver may not compile one, where there is
// too little to do to be worth it, or more than generated kernels count.
//
// A thread computes node after node for one point at a time. Where something is reduced, up to 256 threads share it,
// of a block; how many follows from how many points are reduced, so that bits depend on nothing else. Neighbouring
// threads have neighbours of what is reduced if that lies side by side, and of what is kept otherwise. A thread's sum
// of floats is compensated (Kahan). Shared memory: 4 KB.

#include <algorithm>
#include <limits>
#include <type_traits>

#include "lamina/cuda/array/any_element.cuh"
#include "lamina/cuda/array/walk.cuh"
#include "lamina/cuda/map/map.h"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/whole_function.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256, most_nodes = 120, most_arrays = 40;  // which a kernel's parameters have room for

struct Step {
  std::int64_t strides[most_plain_axes] = {}, offset = 0;

  Step(const MapAxes& along, std::int64_t from) : offset(from) { std::ranges::copy(along, strides); }
  __device__ std::int64_t at(const std::int64_t* point, int rank) const {
    std::int64_t sum = offset;
    for (int a = 0; a < rank; ++a) sum += strides[a] * point[a];
    return sum;
  }
};
struct Guard {
  Step step;
  std::int64_t extent;
};
struct Places {
  Step step;
  const std::int64_t* entries;
};

template <class T>
struct Array {
  Step step;
  int array;  ///< which of PlainMap::arrays
  DType dtype;
  T fill;
  int guards = 0, guards_end = 0, tables = 0, tables_end = 0;
};
struct Stored {
  Step step;
  int array, node;
  DType dtype;
  bool each;  ///< an element for every reduced point
};
template <class T>
struct Node {
  MapNode::Kind kind;
  MapReduction reduction;
  Pointwise function;
  std::int8_t from[3];  ///< of a function all are there
  std::int8_t view;
  T number;
};

template <class T>
struct PlainMap {
  Node<T> nodes[most_nodes];
  const Array<T>* loads;
  const Stored* stores;
  const Guard* guards;
  const Places* tables;
  int node_count, store_count, rank;
  Axes<most_plain_axes> kept, reduced;  ///< of a point the kept coordinates stand first
  std::int64_t kept_count, reduced_count;
  int lanes;        ///< threads that share what is reduced
  bool rows, each;  ///< lanes are neighbours; something is stored for every reduced point
  void* arrays[most_arrays];
};

template <class T>
__device__ T loaded(const PlainMap<T>& map, const Array<T>& of, const std::int64_t* point) {
  std::int64_t place = of.step.at(point, map.rank);
  for (int i = of.guards; i < of.guards_end; ++i) {
    const std::int64_t coordinate = map.guards[i].step.at(point, map.rank);
    if (coordinate < 0 || coordinate >= map.guards[i].extent) return of.fill;
  }
  for (int i = of.tables; i < of.tables_end; ++i) {
    const std::int64_t entry = map.tables[i].entries[map.tables[i].step.at(point, map.rank)];
    if (entry < 0) return of.fill;
    place += entry;
  }
  T one[1];
  load<1>(of.dtype, map.arrays[of.array], place, one);
  return one[0];
}

template <class T>
__device__ __noinline__ T applied(Pointwise function, T v, T x, T y) {
  if constexpr (std::is_integral_v<T>) return detail::whole_function(function, v, x, y);
  if constexpr (std::is_floating_point_v<T>) return float_function(function, v, x, y);
}

/// The nodes before `end`, but reductions, which are known.
template <class T>
__device__ __noinline__ void compute(const PlainMap<T>& map, const std::int64_t* point, T* values, int end) {
  for (int i = 0; i < end; ++i) {
    const Node<T>& node = map.nodes[i];
    switch (node.kind) {
      case MapNode::Kind::load: values[i] = loaded(map, map.loads[node.view], point); break;
      case MapNode::Kind::number: values[i] = node.number; break;
      case MapNode::Kind::function:
        values[i] = applied(node.function, values[node.from[0]], values[node.from[1]], values[node.from[2]]);
        break;
      case MapNode::Kind::reduce: break;
    }
  }
}

template <class T>
__device__ T start_of(MapReduction reduction) {
  using Limits = std::numeric_limits<T>;
  constexpr bool floats = std::is_floating_point_v<T>;
  switch (reduction) {
    case MapReduction::sum: return T{0};
    case MapReduction::product: return T{1};
    case MapReduction::max: return floats ? -Limits::infinity() : Limits::lowest();
    case MapReduction::min: return floats ? Limits::infinity() : Limits::max();
  }
  return T{0};
}
template <class T>
__device__ T joined(MapReduction reduction, T a, T b) {
  switch (reduction) {
    case MapReduction::sum: return applied(Pointwise::add, a, b, b);
    case MapReduction::product: return applied(Pointwise::mul, a, b, b);
    case MapReduction::max: return greater(a, b);
    case MapReduction::min: return lesser(a, b);
  }
  return a;
}

/// A thread's part of a reduction.
template <class T>
struct Part {
  T sum, lost = T{0};

  __device__ void add(MapReduction reduction, T x) {
    if (reduction != MapReduction::sum || !std::is_floating_point_v<T>) {
      sum = joined(reduction, sum, x);
      return;
    }
    const T term = x - lost, next = sum + term, more = (next - sum) - term;
    lost = more - more == T{0} ? more : T{0};  // of an infinite sum nothing is lost
    sum = next;
  }
};

template <class T>
__global__ void __launch_bounds__(threads) plain_map_kernel(const __grid_constant__ PlainMap<T> map) {
  __shared__ T parts[threads];
  let_successor_start();
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x), together = threads / map.lanes;
  const int lane = map.rows ? thread % map.lanes : thread / together;
  const int place = map.rows ? thread / map.lanes : thread % together;
  const int apart = map.rows ? 1 : together;  // in `parts`, from one lane to the next
  std::int64_t point[most_plain_axes];
  T values[most_nodes];
  const auto go_to = [&](const Axes<most_plain_axes>& axes, std::int64_t index, int first) {
    if (axes.count > 0) axes.visit(index, [&](int axis, std::int64_t at) { point[first + axis] = at; });
  };
  for (std::int64_t first = std::int64_t{blockIdx.x} * together; first < map.kept_count;
       first += std::int64_t{gridDim.x} * together) {
    const bool mine = first + place < map.kept_count;
    go_to(map.kept, mine ? first + place : 0, 0);
    for (int n = 0; n < map.node_count; ++n) {
      const Node<T>& node = map.nodes[n];
      if (node.kind != MapNode::Kind::reduce) continue;
      Part<T> part = {start_of<T>(node.reduction)};
      for (std::int64_t i = lane; mine && i < map.reduced_count; i += map.lanes) {
        go_to(map.reduced, i, map.kept.count);
        compute(map, point, values, node.from[0] + 1);
        part.add(node.reduction, values[node.from[0]]);
      }
      parts[thread] = part.sum;
      __syncthreads();
      for (int half = map.lanes / 2; half > 0; half /= 2) {
        if (lane < half) parts[thread] = joined(node.reduction, parts[thread], parts[thread + half * apart]);
        __syncthreads();
      }
      values[n] = parts[thread - lane * apart];
      __syncthreads();
    }
    for (std::int64_t i = lane; mine && i < (map.each ? map.reduced_count : 1); i += map.lanes) {
      go_to(map.reduced, i, map.kept.count);
      compute(map, point, values, map.node_count);
      for (int s = 0; s < map.store_count; ++s) {
        const Stored& to = map.stores[s];
        if (i > 0 && !to.each) continue;
        const T one[1] = {values[to.node]};
        store<1>(to.dtype, one, map.arrays[to.array], to.step.at(point, map.rank));
      }
    }
  }
}

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
  const auto in_order = [&](const MapAxes& strides) {
    MapAxes result;
    for (const bool reduces : {false, true}) {
      for (std::size_t a = 0; a < strides.size(); ++a) {
        if (map.reduces(a) == reduces) result.push_back(strides[a]);
      }
    }
    return result;
  };
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
  std::vector<Array<T>> loads;
  std::vector<Guard> guards;
  std::vector<Places> tables;
  std::int64_t largest = -1;
  for (const MapView& view : map.loads) {
    Array<T> array = {Step(in_order(view.strides), view.offset),
                      view.array,
                      view.dtype,
                      number_as<T>(view.fill),
                      static_cast<int>(guards.size()),
                      0,
                      static_cast<int>(tables.size()),
                      0};
    for (const auto& guard : view.guards) guards.push_back({Step(in_order(guard.strides), guard.offset), guard.extent});
    for (const auto& table : view.tables) {
      tables.push_back({Step(in_order(table.strides), table.offset), constants.add(*table.entries)});
    }
    array.guards_end = static_cast<int>(guards.size()), array.tables_end = static_cast<int>(tables.size());
    loads.push_back(array);
    const std::int64_t size = volume_of(map, view);
    if (size > largest && !map.extents.empty()) largest = size, plain.rows = in_order(view.strides).back() == 1;
  }
  std::vector<Stored> stores;
  for (const auto& [node, view] : map.stores) {
    const bool each = stores_each(map, {node, view});
    stores.push_back({Step(in_order(view.strides), view.offset), inputs + view.array, node, view.dtype, each});
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
  while (plain.lanes < threads && plain.lanes < plain.reduced_count) plain.lanes *= 2;
  const Launch how = {.grid = dim3(grid_for(plain.kept_count, threads / plain.lanes)), .block = dim3(threads)};
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
  return map && map->nodes.size() <= most_nodes &&
         p.inputs.size() + map->parameters.size() + p.outputs.size() <= most_arrays &&
         simplified(*map).extents.size() <= most_plain_axes;
}

std::unique_ptr<Operator> prepare_plain_map(const MapProblem& problem, const Preparation& p) {
  const MapProblem map = simplified(problem);
  return with_compute(map.compute, [&]<class T>(T) { return prepare_as<T>(map, p); });
}

}  // namespace lamina::cuda
