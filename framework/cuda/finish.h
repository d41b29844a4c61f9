#pragma once

#include "lamina/cuda/chain_step.h"
#include "lamina/kernel/epilogue.h"
#include "lamina/kernel/preparation.h"

/// What kernels of products do to a sum, bias included, before it is rounded: a chain of functions of the element
/// alone, and at most one addition of another activation. finish.cuh has the device's side.
namespace lamina::cuda {

inline constexpr int max_finish_steps = 4;

struct Finish {
  /// What is inlined everywhere: [the addition first,] then nothing, a clamp (ReLU too), or one of four functions; GELU
  /// only where the result is rounded to 16 bits; `leaky` multiplies what is negative by `low`. `chain`: anything else,
  /// step by step.
  enum class Kind : std::uint8_t { clamp, silu, gelu, hard_swish, leaky, chain };
  enum class Addition : std::uint8_t { none, first, last };
  Kind kind = Kind::clamp;
  Addition addition = Addition::none;  // of what is inlined
  int steps = 0;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  ChainStep<float> step[max_finish_steps];
  const void* residual = nullptr;  // of the output's shape, format and type; null if nothing is added
};

/// Whether a Finish can be made of it, and the residual, if there is one, lies as the output does.
bool finish_takes(const Epilogue& epilogue, const Preparation& preparation);
/// Of results that are stored as `output`. The residual's address is known when it runs. `adds_last`: where an addition
/// may come behind what is inlined.
Finish finish_of(const Epilogue& epilogue, DType output, bool adds_last = false);

}  // namespace lamina::cuda
