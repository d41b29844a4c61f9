#pragma once

#include "lamina/cuda/chain_step.h"
#include "lamina/kernel/epilogue.h"
#include "lamina/kernel/preparation.h"

/// What kernels of products do to a sum, bias included, before it is rounded: a chain of functions of the element
/// alone, and at most one addition of another activation. finish.cuh has the device's side.
namespace lamina::cuda {

inline constexpr int max_finish_steps = 4;

struct Finish {
  /// What is inlined everywhere: [the addition first,] then nothing, a clamp (ReLU too), or one of three
  /// functions; GELU only where the result is rounded to 16 bits. `chain`: anything else, step by step.
  enum class Kind : std::uint8_t { clamp, silu, gelu, hard_swish, chain };
  Kind kind = Kind::clamp;
  int steps = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  ChainStep<float> step[max_finish_steps];
  const void* residual = nullptr;  // of the output's shape, format and type; null if nothing is added
};

/// Whether a Finish can be made of it, and the residual, if there is one, lies as the output does.
bool finish_takes(const Epilogue& epilogue, const Preparation& preparation);
/// Of results that are stored as `output`. The residual's address is known when it runs.
Finish finish_of(const Epilogue& epilogue, DType output);

}  // namespace lamina::cuda
