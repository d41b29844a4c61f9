#pragma once

#include <span>

#include "lamina/kernel/map.h"

namespace lamina::cpu {

/// Computes a valid Map node by node, as it is written: the definition that every other way is tested against.
/// Reductions add in row-major order of the reduced axes.
void evaluate(const MapProblem& problem, std::span<const void* const> inputs, std::span<void* const> outputs);

}  // namespace lamina::cpu
