#pragma once

#include <optional>

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/map/map_of.h"

/// Rows that run a problem as a Map, by a kernel generated for it.
namespace lamina::cuda {

bool takes_map(const std::optional<MapOf>& map, const Preparation& preparation);
std::unique_ptr<Operator> prepare_map(const MapOf& map, const Preparation& preparation);

template <class Problem>
bool takes_as_map(const Problem& problem, const Preparation& preparation) {
  return takes_map(map_of(problem, preparation), preparation);
}
template <class Problem>
std::unique_ptr<Operator> prepare_as_map(const Problem& problem, const Preparation& preparation) {
  return prepare_map(*map_of(problem, preparation), preparation);
}
/// Until the kernels that it takes the place of are gone it stands behind them.
template <class Problem>
bool never_pays(const Problem&, const Preparation&) {
  return false;
}
template <class Problem>
inline constexpr Kernel<Problem> map_row = {"map", takes_as_map<Problem>, prepare_as_map<Problem>, never_pays<Problem>,
                                            reads::slices | reads::strides | reads::chain | reads::operands};

}  // namespace lamina::cuda
