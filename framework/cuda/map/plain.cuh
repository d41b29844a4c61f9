#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lamina/cuda/any_element.cuh"
#include "lamina/cuda/map/map.h"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/walk.cuh"
#include "lamina/kernel/rules/whole_function.h"

/// A Map as it is written down, by a kernel that is there already: where the driver may not compile one, where there is
/// too little to do to be worth it, or more than generated kernels count.
///
/// A thread computes node after node for one point at a time. Where something is reduced, up to 256 threads share it,
/// of a block; how many follows from how many points are reduced, so that bits depend on nothing else. Neighbouring
/// threads have neighbours of what is reduced if that lies side by side, and of what is kept otherwise. A thread's sum
/// of floats is compensated (Kahan). Shared memory: 4 KB.
namespace lamina::cuda {

inline constexpr int plain_threads = 256;
/// A kernel's parameters have room for those.
inline constexpr int most_nodes = 120, most_arrays = 40;

/// A sum over a point's coordinates.
struct PlainStep {
  std::int64_t strides[most_plain_axes] = {}, offset = 0;

  PlainStep(const MapAxes& along, std::int64_t from) : offset(from) { std::ranges::copy(along, strides); }
  __device__ std::int64_t at(const std::int64_t* point, int rank) const {
    std::int64_t sum = offset;
    for (int a = 0; a < rank; ++a) sum += strides[a] * point[a];
    return sum;
  }
};
struct PlainGuard {
  PlainStep step;
  std::int64_t extent;
};
struct PlainTable {
  PlainStep step;
  const std::int64_t* entries;
};

template <class T>
struct PlainArray {
  PlainStep step;
  int array;  ///< which of PlainMap::arrays
  DType dtype;
  T fill;
  int guards = 0, guards_end = 0, tables = 0, tables_end = 0;
};
struct PlainStore {
  PlainStep step;
  int array, node;
  DType dtype;
  bool each;  ///< an element for every reduced point
};
template <class T>
struct PlainNode {
  MapNode::Kind kind;
  MapReduction reduction;
  Pointwise function;
  std::int8_t from[3];  ///< of a function all are there
  std::int8_t view;
  T number;
};

template <class T>
struct PlainMap {
  PlainNode<T> nodes[most_nodes];
  const PlainArray<T>* loads;
  const PlainStore* stores;
  const PlainGuard* guards;
  const PlainTable* tables;
  int node_count, store_count, rank;
  Axes<most_plain_axes> kept, reduced;  ///< of a point the kept coordinates stand first
  std::int64_t kept_count, reduced_count;
  int lanes;        ///< threads that share what is reduced
  bool rows, each;  ///< lanes are neighbours; something is stored for every reduced point
  void* arrays[most_arrays];
};

template <class T>
__device__ T loaded(const PlainMap<T>& map, const PlainArray<T>& of, const std::int64_t* point) {
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
    const PlainNode<T>& node = map.nodes[i];
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
    case MapReduction::spread: break;  // of takes_plain_map
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
    case MapReduction::spread: break;
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
__global__ void __launch_bounds__(plain_threads) plain_map_kernel(const __grid_constant__ PlainMap<T> map) {
  __shared__ T parts[plain_threads];
  let_successor_start();
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x), together = plain_threads / map.lanes;
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
      const PlainNode<T>& node = map.nodes[n];
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
        const PlainStore& to = map.stores[s];
        if (i > 0 && !to.each) continue;
        const T one[1] = {values[to.node]};
        store<1>(to.dtype, one, map.arrays[to.array], to.step.at(point, map.rank));
      }
    }
  }
}

}  // namespace lamina::cuda
