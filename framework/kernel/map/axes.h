#pragma once

#include "lamina/kernel/map/map.h"

namespace lamina::detail {

/// Calls each(strides) for every list of numbers, one an axis, that a Map has beside its extents.
template <class Problem, class F>
void each_strides(Problem& problem, F&& each) {
  const auto of_view = [&](auto& view) {
    each(view.strides);
    for (auto& guard : view.guards) each(guard.strides);
    for (auto& table : view.tables) each(table.strides);
  };
  for (auto& view : problem.loads) of_view(view);
  for (auto& store : problem.stores) of_view(store.view);
}

}  // namespace lamina::detail
