#pragma once

#include <optional>
#include <vector>

#include "lamina/kernel/map/map.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Problems that are no products as Maps.
namespace lamina {

/// Nothing where the operands do not fit the problem, or it has what a Map does not say yet: codes, tables of bytes,
/// places that are found (arg_max), nothing to reduce.
std::optional<MapProblem> map_of(const PointwiseProblem& problem, const Preparation& preparation);
std::optional<MapProblem> map_of(const AffineProblem& problem, const Preparation& preparation);
std::optional<MapProblem> map_of(const ConversionProblem& problem, const Preparation& preparation);
std::optional<MapProblem> map_of(const MoveProblem& problem, const Preparation& preparation);
std::optional<MapProblem> map_of(const ReduceProblem& problem, const Preparation& preparation);
std::optional<MapProblem> map_of(const NormProblem& problem, const Preparation& preparation);
std::optional<MapProblem> map_of(const SoftmaxProblem& problem, const Preparation& preparation);
std::optional<MapProblem> map_of(const PoolProblem& problem, const Preparation& preparation);
/// Of pixels, or rows, with a few channels, input and output: talking heads, changes of colours.
std::optional<MapProblem> map_of(const ConvProblem& problem, const Preparation& preparation);
std::optional<MapProblem> map_of(const LinearProblem& problem, const Preparation& preparation);

/// One for each of the operands, which writes its part of the result.
std::vector<MapProblem> maps_of(const ConcatProblem& problem, const Preparation& preparation);

}  // namespace lamina
