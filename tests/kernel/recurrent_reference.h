#pragma once

#include <algorithm>
#include <cmath>

#include <vector>

#include "lamina/kernel/rules/recurrent.h"
#include "support/problem_data.h"

/// Recurrent layers, drawn at random, and by plain loops in double precision.
namespace lamina::test {

struct RecurrentCase {
  RecurrentProblem problem;
  std::int64_t steps = 1, images = 1;
  std::vector<Tensor> inputs = {};  ///< as the problem has them

  Shape output() const {
    const std::int64_t rows = steps + (problem.cell == Cell::lstm ? 2 : 1);
    return {rows, images, problem.directions * problem.hidden};
  }
};

/// Weights of a spread at which states neither vanish nor grow.
inline RecurrentCase draw_recurrent(RecurrentProblem problem, std::int64_t steps, std::int64_t images, unsigned seed,
                                    std::vector<std::int64_t> lengths = {}, bool codes = false) {
  const std::int64_t d = problem.directions, h = problem.hidden, rows = problem.gates() * h;
  const auto drawn = [&](const Shape& shape, float spread) {
    Tensor result = draw_floats(shape, ++seed);
    for (float& v : result.values<float>()) v *= spread;
    return result;
  };
  problem.weight = drawn({d, rows, h}, 2 / std::sqrt(static_cast<float>(h)));
  if (problem.reset_after) problem.bias = drawn({d, h}, 1);
  if (codes) {
    problem.weight = draw_whole({d, rows, h}, ++seed, -127, 127, DType::f32);
    problem.scale = drawn({d, rows}, 1 / (40 * std::sqrt(static_cast<float>(h))));
  }
  if (problem.functions.empty()) {
    for (int i = 0; i < d; ++i) {
      if (problem.cell != Cell::rnn) problem.functions.push_back({.function = Pointwise::sigmoid});
      problem.functions.push_back({.function = Pointwise::tanh});
      if (problem.cell == Cell::lstm) problem.functions.push_back({.function = Pointwise::tanh});
    }
  }
  problem.lengths = !lengths.empty();
  RecurrentCase result = {.problem = problem, .steps = steps, .images = images};
  result.inputs.push_back(drawn({steps, images, d * rows}, 1));
  if (problem.initial) result.inputs.push_back(drawn({images, d * h}, 1));
  if (problem.initial && problem.cell == Cell::lstm) result.inputs.push_back(drawn({images, d * h}, 1));
  if (problem.lengths) result.inputs.push_back(Tensor::from(lengths, {images}).to(DType::i32));
  return result;
}

/// What ONNX says of RNN, GRU and LSTM, in the order of the problem's output.
inline std::vector<double> recurrent_reference(const RecurrentCase& c) {
  const RecurrentProblem& p = c.problem;
  const bool lstm = p.cell == Cell::lstm;
  const std::int64_t d = p.directions, h = p.hidden, gates = p.gates();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const std::vector<double> x = doubles(c.inputs[0]), weight = doubles(p.weight);
  const std::vector<double> bias = p.bias.defined() ? doubles(p.bias) : std::vector<double>();
  const std::vector<double> peepholes = p.peepholes.defined() ? doubles(p.peepholes) : std::vector<double>();
  std::vector<double> result(at(c.output().numel()));
  for (std::int64_t dir = 0; dir < d; ++dir) {
    const auto function = [&](std::int64_t which, double v) {
      const PointwiseStep& f = p.functions[at(dir * std::ssize(p.functions) / d + which)];
      switch (f.function) {
        case Pointwise::sigmoid: return 1 / (1 + std::exp(-v));
        case Pointwise::tanh: return std::tanh(v);
        case Pointwise::relu: return std::max(v, 0.0);
        default: return std::clamp(f.a * v + f.b, 0.0, 1.0);
      }
    };
    const auto clip = [&](double v) { return std::clamp(v, -double{p.clip}, double{p.clip}); };
    for (std::int64_t n = 0; n < c.images; ++n) {
      const std::int64_t length = p.lengths ? static_cast<std::int64_t>(doubles(c.inputs.back())[at(n)]) : c.steps;
      std::vector<double> state(at(h)), cells(at(h));
      for (std::int64_t u = 0; u < h && p.initial && length > 0; ++u) {
        state[at(u)] = doubles(c.inputs[1])[at((n * d + dir) * h + u)];
        if (lstm) cells[at(u)] = doubles(c.inputs[2])[at((n * d + dir) * h + u)];
      }
      for (std::int64_t s = 0; s < length; ++s) {
        const std::int64_t t = dir == 1 || p.reverse ? length - 1 - s : s;
        const auto of_x = [&](std::int64_t g, std::int64_t u) {
          return x[at(((t * c.images + n) * d + dir) * gates * h + g * h + u)];
        };
        std::vector<double> of_gates = state;
        const double low = std::min(0.0, *std::ranges::min_element(state));
        const double wide = std::max(0.0, *std::ranges::max_element(state)) - low, step = wide == 0 ? 1 : wide / 255;
        const double zero = std::nearbyint(-low / step);
        for (double& v : of_gates) {
          if (p.scale.defined()) v = step * (std::clamp(std::nearbyint(v / step) + zero, 0.0, 255.0) - zero);
        }
        const auto product = [&](std::int64_t g, std::int64_t u, const std::vector<double>& of) {
          double sum = 0;
          for (std::int64_t k = 0; k < h; ++k) sum += weight[at((dir * gates * h + g * h + u) * h + k)] * of[at(k)];
          return p.scale.defined() ? sum * doubles(p.scale)[at(dir * gates * h + g * h + u)] : sum;
        };
        const auto peephole = [&](std::int64_t g, std::int64_t u, double cell) {
          return peepholes.empty() ? 0 : peepholes[at((dir * 3 + g) * h + u)] * cell;
        };
        const auto pre = [&](std::int64_t g, std::int64_t u) { return of_x(g, u) + product(g, u, of_gates); };
        std::vector<double> next(at(h)), reset(at(h));
        for (std::int64_t u = 0; u < h; ++u) reset[at(u)] = p.cell == Cell::gru ? function(0, clip(pre(1, u))) : 0;
        std::vector<double> factor = state;
        for (std::int64_t u = 0; u < h; ++u) factor[at(u)] *= reset[at(u)];
        for (std::int64_t u = 0; u < h; ++u) {
          if (p.cell == Cell::rnn) next[at(u)] = function(0, clip(pre(0, u)));
          if (p.cell == Cell::gru) {
            const double z = function(0, clip(pre(0, u)));
            const double candidate =
                p.reset_after ? reset[at(u)] * (product(2, u, state) + bias[at(dir * h + u)]) : product(2, u, factor);
            next[at(u)] = (1 - z) * function(1, clip(of_x(2, u) + candidate)) + z * state[at(u)];
          }
          if (!lstm) continue;
          const double i = function(0, clip(pre(0, u) + peephole(0, u, cells[at(u)])));
          const double f = p.input_forget ? 1 - i : function(0, clip(pre(2, u) + peephole(2, u, cells[at(u)])));
          cells[at(u)] = f * cells[at(u)] + i * function(1, clip(pre(3, u)));
          next[at(u)] = function(0, clip(pre(1, u) + peephole(1, u, cells[at(u)]))) * function(2, cells[at(u)]);
        }
        state = next;
        for (std::int64_t u = 0; u < h; ++u) result[at(((t * c.images + n) * d + dir) * h + u)] = state[at(u)];
      }
      for (std::int64_t u = 0; u < h; ++u) {
        result[at(((c.steps * c.images + n) * d + dir) * h + u)] = state[at(u)];
        if (lstm) result[at((((c.steps + 1) * c.images + n) * d + dir) * h + u)] = cells[at(u)];
      }
    }
  }
  return result;
}

}  // namespace lamina::test
