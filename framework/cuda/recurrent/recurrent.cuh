#pragma once

#include <vector>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/recurrent.h"

/// What the kernels of recurrent layers have in common: their arguments, and what a cell makes of sums.
namespace lamina::cuda::recurrent {

/// Within 1e-6 of it, relatively, by the special functions.
__device__ __forceinline__ float tanh16(float v) {
  const float e = exponential16(-2.0f * fabsf(v)), square = v * v;
  const float far = copysignf((1.0f - e) * reciprocal16(1.0f + e), v);
  return fabsf(v) < 0.05f ? v * (1.0f - square * (1.0f / 3.0f - square * (2.0f / 15.0f))) : far;
}

struct CellFunction {
  Pointwise function = Pointwise::tanh;
  float a = 0, b = 0;

  /// Of several values at once, which do not wait for each other then. `fast`: of what is rounded to 16 bits.
  template <bool fast, int n>
  __device__ __forceinline__ void apply(float (&values)[n]) const {
    const auto each = [&](auto f) {
#pragma unroll
      for (float& v : values) v = f(v);
    };
    switch (function) {  // every thread's is the same
      case Pointwise::sigmoid:
        return each([](float v) { return fast ? reciprocal16(1.0f + exponential16(-v)) : sigmoid_of(v); });
      case Pointwise::tanh: return each([](float v) { return fast ? tanh16(v) : tanhf(v); });
      case Pointwise::relu: return each([](float v) { return activate(v, true); });
      default: return each([&](float v) { return clipped(a * v + b, 0.0f, 1.0f); });
    }
  }
};

/// What kernels know of a layer.
struct RecurrentArgs {
  const void *x = nullptr, *h = nullptr, *c = nullptr;  // [T, N, D, G, H]; [N, D, H], or null
  const std::int32_t* lengths = nullptr;
  void* y = nullptr;                                                    // [T + 1 or 2, N, D, H]
  float* state = nullptr;                                               // [D, N, 4, H]: h by turns, c or z, r h
  const void* weights = nullptr;                                        // as the kernel wants them
  const float *bias = nullptr, *peepholes = nullptr, *scale = nullptr;  // [D, H]; [D, 3, H]; [D, G, H]; or null
  Fault* fault = nullptr;
  CellFunction functions[2][3] = {};
  RecurrentProblem::Phase phase[2] = {};
  int steps = 0, images = 0, directions = 0, hidden = 0, gates = 0, phases = 0;
  float clip = 0;
  Cell cell = Cell::lstm;
  bool reverse = false, reset_after = false, input_forget = false, initial = false, counted = false;

  __device__ std::int64_t place(std::int64_t row, int image, int direction) const {
    return ((row * images + image) * directions + direction) * hidden;
  }
  __device__ float* state_of(int image, int direction, int which) const {
    return state + ((static_cast<std::int64_t>(direction) * images + image) * 4 + which) * hidden;
  }
  __device__ int length(int image) const {
    const int length = lengths == nullptr ? steps : lengths[image];
    if (length >= 0 && length <= steps) return length;
    if (fault != nullptr) *fault = {Fault::outside, length, steps + 1};
    return length < 0 ? 0 : steps;
  }
};

/// Of n units of cells of one phase: their next h and, of an LSTM, c, from the sums of their gates and what came in,
/// x(gate, j).
template <bool fast, int n, class X>
__device__ __forceinline__ void cells_of(const RecurrentArgs& a, int d, const int (&units)[n], const float (&sum)[4][n],
                                         const X& x, float (&h)[n], float (&c)[n]) {
  const auto gate = [&](int which, int function, int peephole, float(&v)[n]) {
    const float* const p =
        peephole < 0 || a.peepholes == nullptr ? nullptr : a.peepholes + (d * 3 + peephole) * a.hidden;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      v[j] = clipped(x(which, j) + sum[which][j] + (p == nullptr ? 0 : p[units[j]] * c[j]), -a.clip, a.clip);
    }
    a.functions[d][function].template apply<fast>(v);
  };
  if (a.cell == Cell::rnn) return gate(0, 0, -1, h);
  float first[n], second[n], third[n];
  if (a.cell == Cell::lstm) {
    gate(0, 0, 0, first);
    if (!a.input_forget) gate(2, 0, 2, second);
    gate(3, 1, -1, third);
#pragma unroll
    for (int j = 0; j < n; ++j) c[j] = (a.input_forget ? 1 - first[j] : second[j]) * c[j] + first[j] * third[j];
    gate(1, 0, 1, h);
#pragma unroll
    for (int j = 0; j < n; ++j) first[j] = c[j];
    a.functions[d][2].template apply<fast>(first);
#pragma unroll
    for (int j = 0; j < n; ++j) h[j] *= first[j];
    return;
  }
  gate(0, 0, -1, first);
  gate(1, 0, -1, second);
#pragma unroll
  for (int j = 0; j < n; ++j) {
    third[j] = clipped(x(2, j) + second[j] * (sum[2][j] + a.bias[d * a.hidden + units[j]]), -a.clip, a.clip);
  }
  a.functions[d][1].template apply<fast>(third);
#pragma unroll
  for (int j = 0; j < n; ++j) h[j] = third[j] + first[j] * (h[j] - third[j]);
}

/// All but the weights and what a run knows.
inline RecurrentArgs arguments_of(const RecurrentProblem& problem, const Preparation& p, Constants& constants) {
  const Shape& in = p.input().shape;
  RecurrentArgs args = {.phase = {problem.phase(0), problem.phase(1)},
                        .steps = static_cast<int>(in[0]),
                        .images = static_cast<int>(in[1]),
                        .directions = problem.directions,
                        .hidden = static_cast<int>(problem.hidden),
                        .gates = problem.gates(),
                        .phases = problem.phases(),
                        .clip = problem.clip,
                        .cell = problem.cell,
                        .reverse = problem.reverse,
                        .reset_after = problem.reset_after,
                        .input_forget = problem.input_forget,
                        .initial = problem.initial,
                        .counted = problem.lengths};
  if (problem.scale.defined()) args.scale = static_cast<const float*>(constants.add(problem.scale));
  if (problem.bias.defined()) args.bias = static_cast<const float*>(constants.add(problem.bias));
  if (problem.peepholes.defined()) args.peepholes = static_cast<const float*>(constants.add(problem.peepholes));
  const std::size_t each = problem.functions.size() / static_cast<std::size_t>(problem.directions);
  for (std::size_t i = 0; i < problem.functions.size(); ++i) {
    const PointwiseStep& f = problem.functions[i];
    args.functions[i / each][i % each] = {f.function, static_cast<float>(f.a), static_cast<float>(f.b)};
  }
  return args;
}

/// With the addresses of a run.
inline RecurrentArgs in_run(RecurrentArgs a, tables::Inputs inputs, tables::Outputs outputs,
                            const Execution& execution) {
  a.x = inputs[0].raw(), a.y = outputs[0].raw();
  if (a.initial) a.h = inputs[1].raw();
  if (a.initial && a.cell == Cell::lstm) a.c = inputs[2].raw();
  if (a.counted) a.lengths = elements<std::int32_t>(inputs.back());
  a.state = static_cast<float*>(execution.workspace), a.fault = execution.fault;
  return a;
}

Takes<RecurrentProblem> takes_mma;
Prepare<RecurrentProblem> prepare_mma;

}  // namespace lamina::cuda::recurrent
