#pragma once

#include <optional>
#include <vector>

#include "lamina/kernel/map/map.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"
#include "lamina/tensor/tensor.h"

/// Problems that are no products as Maps.
namespace lamina {

struct MapOf {
  MapProblem map;                       ///< its arrays are the operation's inputs, and behind them:
  std::vector<Tensor> parameters = {};  ///< f32
};

/// Nothing where the operands do not fit the problem, or it has what a Map does not say yet: codes, tables of bytes,
/// places that are found (arg_max), nothing to reduce.
std::optional<MapOf> map_of(const PointwiseProblem& problem, const Preparation& preparation);
std::optional<MapOf> map_of(const AffineProblem& problem, const Preparation& preparation);
std::optional<MapOf> map_of(const ConversionProblem& problem, const Preparation& preparation);
std::optional<MapOf> map_of(const MoveProblem& problem, const Preparation& preparation);
std::optional<MapOf> map_of(const ReduceProblem& problem, const Preparation& preparation);
std::optional<MapOf> map_of(const NormProblem& problem, const Preparation& preparation);
std::optional<MapOf> map_of(const SoftmaxProblem& problem, const Preparation& preparation);

}  // namespace lamina
