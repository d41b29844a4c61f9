#pragma once

#include <vector>

#include "lamina/kernel/map/map.h"

namespace lamina {

/// A Map as several, of which only the last has points that wait for what is reduced.
struct MapStages {
  /// Each computes reductions of those before it: all its stores are of one array. The last is without any.
  std::vector<MapProblem> maps;
  /// How many elements of `compute` each of those arrays has. Number i is input `first + i` of the Maps behind it.
  std::vector<std::int64_t> elements;
};

/// The arrays between stages are inputs from `first` on. A Map that stores a number for all reduced points and others
/// for each of them stays one.
MapStages stages_of(const MapProblem& of, int first);

}  // namespace lamina
