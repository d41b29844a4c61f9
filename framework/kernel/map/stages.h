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

/// Reduced axes, a bit each, of which a few elements lie side by side, and behind them those of the next row, while
/// each row goes on far away: groups of channels of images stored channels last. Whoever reads such a row alone leaves
/// most of what memory brings. Only of Maps that store something at every point.
unsigned interleaved_axes(const MapProblem& map);

/// Reductions over interleaved axes are two stages: over all others first, for each element of these, and then over
/// them. The arrays between stages are inputs from `first` on. A Map that stores a number for all reduced points and
/// others for each of them stays one.
MapStages stages_of(const MapProblem& of, int first);

}  // namespace lamina
