#pragma once

#include <vector>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/recurrent.h"

/// What the kernels of recurrent layers have in common: their arguments, and what a cell makes of sums.
namespace lamina::cuda::recurrent {

struct CellFunction {
  Pointwise function = Pointwise::tanh;
  float a = 0, b = 0;

  __device__ float operator()(float v) const {
    switch (function) {
      case Pointwise::sigmoid: return sigmoid_of(v);
      case Pointwise::tanh: return tanhf(v);
      case Pointwise::relu: return activate(v, true);
      default: return clipped(a * v + b, 0.0f, 1.0f);
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

/// h of a unit in a cell of one phase, and of an LSTM its next c, from the sums of its gates and what came in.
template <class X>
__device__ __forceinline__ float cell_of(const RecurrentArgs& a, int d, int unit, const float (&sum)[4], const X& x,
                                         float old, float& c) {
  const auto gate = [&](int function, float v) { return a.functions[d][function](clipped(v, -a.clip, a.clip)); };
  if (a.cell == Cell::rnn) return gate(0, x(0) + sum[0]);
  if (a.cell == Cell::lstm) {
    const auto with_c = [&](int which, int peephole, float c_now) {
      const float* const p = a.peepholes == nullptr ? nullptr : a.peepholes + (d * 3 + peephole) * a.hidden;
      return gate(0, x(which) + sum[which] + (p == nullptr ? 0 : p[unit] * c_now));
    };
    const float i = with_c(0, 0, c), f = a.input_forget ? 1 - i : with_c(2, 2, c);
    c = f * c + i * gate(1, x(3) + sum[3]);
    return with_c(1, 1, c) * a.functions[d][2](c);
  }
  const float z = gate(0, x(0) + sum[0]), r = gate(0, x(1) + sum[1]);
  const float candidate = gate(1, x(2) + r * (sum[2] + a.bias[d * a.hidden + unit]));
  return candidate + z * (old - candidate);
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
