#include "lamina/layers/elementwise.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/error.h"
#include "lamina/layers/absorption.h"
#include "lamina/layers/conv2d.h"

namespace lamina {

using detail::fail;

Elementwise::Elementwise(PointwiseChain chain, DType compute, DType output)
    : op_(chain.empty() ? "identity" : describe(chain[0].function).name),
      chain_(std::move(chain)),
      compute_(compute),
      output_(output) {}

Shape detail::broadcast(std::string_view op, std::span<const Shape> inputs) {
  std::size_t rank = 0;
  for (const Shape& input : inputs) rank = std::max(rank, input.rank());
  std::vector<std::int64_t> result(rank, 1);
  for (const Shape& input : inputs) {
    const std::size_t missing = rank - input.rank();
    for (std::size_t d = missing; d < rank; ++d) {
      const std::int64_t extent = input.extents()[d - missing];
      if (extent == 1 || extent == result[d]) continue;
      if (result[d] != 1) {
        fail(op, ": expected inputs whose shapes are equal or broadcast, got ", inputs[0], " and ",
             input == inputs[0] ? inputs.back() : input);
      }
      result[d] = extent;
    }
  }
  return Shape(result);
}

Shape Elementwise::output_shape(std::span<const Shape> inputs) const {
  const int operands = inputs_of(chain_);
  if (inputs.size() != static_cast<std::size_t>(operands)) {
    fail(op(), ": expected ", operands, operands == 1 ? " input" : " inputs", ", got ", inputs.size());
  }
  return detail::broadcast(op(), inputs);
}

DType Elementwise::output_dtype(std::span<const DType>) const { return output_; }

namespace {

/// What x f(x) and their like are called: the steps from the element of input 0 on, in the order of exporters.
struct Idiom {
  PointwiseChain steps;
  Pointwise function;
};

bool alike(const PointwiseStep& a, const PointwiseStep& b) {
  const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-6 * std::abs(y); };
  return a.function == b.function && a.operand == b.operand && a.second == b.second && near(a.a, b.a) && near(a.b, b.b);
}

PointwiseChain simplified(PointwiseChain chain) {
  using enum Pointwise;
  constexpr double root = 1.41421356237309515;
  const PointwiseStep times_x = {.function = mul, .operand = 0};
  static const Idiom idioms[] = {{{{.function = sigmoid}, times_x}, silu},
                                 {{{.function = hard_sigmoid, .a = 1.0 / 6, .b = 0.5}, times_x}, hard_swish},
                                 {{{.function = softplus}, {.function = tanh}, times_x}, mish},
                                 {{{.function = div, .a = root},
                                   {.function = erf},
                                   {.function = add, .a = 1},
                                   times_x,
                                   {.function = mul, .a = 0.5}},
                                  gelu},
                                 {{{.function = mul, .a = 1 / root},
                                   {.function = erf},
                                   {.function = add, .a = 1},
                                   times_x,
                                   {.function = mul, .a = 0.5}},
                                  gelu},
                                 {{times_x,
                                   times_x,
                                   {.function = mul, .a = 0.044715},
                                   {.function = add, .operand = 0},
                                   {.function = mul, .a = 0.79788456080286541},
                                   {.function = tanh},
                                   {.function = add, .a = 1},
                                   times_x,
                                   {.function = mul, .a = 0.5}},
                                  gelu_tanh}};
  for (const auto& [steps, function] : idioms) {
    if (chain.size() < steps.size() || !std::equal(steps.begin(), steps.end(), chain.begin(), alike)) continue;
    chain.erase(chain.begin() + 1, chain.begin() + static_cast<std::ptrdiff_t>(steps.size()));
    chain[0] = {.function = function};
  }
  return chain;
}

}  // namespace

Module::Absorbed Elementwise::absorb(const Module& next, std::span<const Operand> operands) const {
  if (compute_ != DType::f32 || output_ != DType::f32) return {};
  PointwiseChain chain = chain_;
  const PointwiseChain product = {{.function = Pointwise::mul, .operand = 1}};
  if (const auto* conv = dynamic_cast<const Conv2d*>(&next); conv != nullptr && chain == product) {
    return {.module = conv->with_scaled_input()};
  }
  if (!detail::append(chain, next, operands)) return {};
  return {.module = std::make_shared<Elementwise>(simplified(std::move(chain)))};
}

PointwiseProblem Elementwise::problem(std::span<const Shape>) const { return {chain_, compute_}; }

}  // namespace lamina
