#pragma once

#include <span>

#include "lamina/kernel/map/map.h"

namespace lamina::cpu {

/// Computes a valid Map node by node, as it is written: the definition that every other way is tested against.
/// Reductions go in row-major order of the reduced axes, those of f32 in f64.
void evaluate(const MapProblem& problem, std::span<const void* const> inputs, std::span<void* const> outputs);

}  // namespace lamina::cpu
