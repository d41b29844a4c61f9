#pragma once

#include <vector>

#include "lamina/kernel/map/map.h"

namespace lamina {

/// A Map as several, of which only the last has points that wait for what is reduced.
struct MapStages {
  /// Each computes reductions, and what is known as soon as they are: all its stores are of one array. The last is
  /// without any.
  std::vector<MapProblem> maps;
  /// How many elements of `compute` each of those arrays has. Number i is input `first + i` of the Maps behind it.
  std::vector<std::int64_t> elements;
};

/// A reduced axis, as a bit, of which a few elements lie side by side, and behind them those of the next row, while
/// each row goes on far away: groups of channels of images stored channels last. Whoever reads such a row alone leaves
/// most of what memory brings.
unsigned few_beside_next_row(const MapProblem& map);

/// A Map that stores a number for all reduced points and others for each of them stays one. The arrays between stages
/// are inputs from `first` on.
MapStages stages_of(const MapProblem& of, int first);

}  // namespace lamina
