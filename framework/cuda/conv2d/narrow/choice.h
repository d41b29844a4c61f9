#pragma once

#include <optional>

#include "lamina/cuda/conv2d/narrow/arguments.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// How the work is divided among warps and blocks: rules, no trial runs.
namespace lamina::cuda::narrow {

struct Choice {
  Tile tile;
  Arguments args;  // all that does not need memory
  int element_bytes = 2;
  int blocks = 0;
  int shared_bytes = 0;
  double cycles = 0;
};

/// The fastest by estimate; nothing if none fits into shared memory.
std::optional<Choice> choose(const ConvProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::narrow
