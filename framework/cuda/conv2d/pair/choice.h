#pragma once

#include <optional>

#include "lamina/cuda/conv2d/pair/arguments.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/preparation.h"

/// How the work is divided among blocks, and whether it pays: rules, no trial runs.
namespace lamina::cuda::pair {

struct Choice {
  Instance instance;
  Arguments args;  // all that does not need memory
  std::int64_t blocks = 0;
  int shared_bytes = 0;
  double cycles = 0;
};

/// The fastest by estimate; nothing if no tile fits into shared memory, or none is compiled.
std::optional<Choice> choose(const ConvPairProblem& problem, const Preparation& preparation);

/// Whether it is expected to take less time than one after the other.
bool pays(const ConvPairProblem& problem, const Choice& choice);

}  // namespace lamina::cuda::pair
