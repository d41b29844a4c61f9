#pragma once

#include <optional>

#include "lamina/cuda/conv2d/depthwise/arguments.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/preparation.h"

/// How the work is divided among blocks: rules, no trial runs.
namespace lamina::cuda::depthwise {

template <class Args>
struct ChoiceOf {
  Instance instance;
  Args args;  // all that needs no memory
  std::int64_t blocks = 0;
  int threads = max_threads;
  int shared_bytes = 0;
  double cost = 0;  // of pairs: clock cycles
};
using Choice = ChoiceOf<Arguments>;
using PairChoice = ChoiceOf<PairArguments>;

constexpr int shared_limit = 96 * 1024;  // two blocks on a multiprocessor of any device from 8.0 on but 8.6 and 8.9

/// The first instance, the widest pack, that fits; the last fit any geometry.
Choice choose(const ConvProblem& problem, const Preparation& preparation);

/// The fastest by estimate; nothing if no tile fits into shared memory, or none is compiled.
std::optional<PairChoice> choose(const ConvPairProblem& problem, const Preparation& preparation);

}  // namespace lamina::cuda::depthwise
