#include "lamina/layers/elementwise.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/error.h"
#include "lamina/layers/absorption.h"

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

/// What x f(x) and their like are called: the steps from the element of input 0 on, in the order of `in_order`.
struct Idiom {
  PointwiseChain steps, are;
};

bool alike(const PointwiseStep& a, const PointwiseStep& b) {
  const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-6 * std::abs(y); };
  return a.function == b.function && a.operand == b.operand && a.second == b.second && near(a.a, b.a) && near(a.b, b.b);
}

/// The same, whoever wrote it: a division by a number is a product, and of factors the value itself comes first.
PointwiseChain in_order(PointwiseChain chain) {
  const auto is_product = [](const PointwiseStep& step) { return step.function == Pointwise::mul; };
  for (PointwiseStep& step : chain) {
    if (step.function == Pointwise::div && step.operand < 0) step = {.function = Pointwise::mul, .a = 1 / step.a};
  }
  for (auto at = chain.begin(); at != chain.end();) {
    const auto end = std::find_if_not(at, chain.end(), is_product);
    std::stable_partition(at, end, [](const PointwiseStep& step) { return step.operand >= 0; });
    at = end == chain.end() ? end : end + 1;
  }
  return chain;
}

PointwiseChain simplified(PointwiseChain chain) {
  using enum Pointwise;
  constexpr double root = 1.41421356237309515, slope = 0.79788456080286541, cubic = 0.044715, quick = 1.702;
  const PointwiseStep x = {.function = mul, .operand = 0}, half = {.function = mul, .a = 0.5};
  const PointwiseStep one_more = {.function = add, .a = 1}, sixth = {.function = mul, .a = 1.0 / 6};
  const PointwiseStep three_more = {.function = add, .a = 3}, to_six = {.function = clip, .a = 0, .b = 6};
  const PointwiseStep hard = {.function = hard_sigmoid, .a = 1.0 / 6, .b = 0.5};
  static const Idiom idioms[] = {
      {{{.function = sigmoid}, x}, {{.function = silu}}},
      {{{.function = mul, .a = quick}, {.function = sigmoid}, x},
       {{.function = mul, .a = quick}, {.function = silu}, {.function = mul, .a = 1 / quick}}},
      {{three_more, to_six, sixth}, {hard}},
      {{three_more, to_six, x, sixth}, {{.function = hard_swish}}},
      {{hard, x}, {{.function = hard_swish}}},
      {{{.function = softplus}, {.function = tanh}, x}, {{.function = mish}}},
      {{{.function = mul, .a = 1 / root}, {.function = erf}, one_more, x, half}, {{.function = gelu}}},
      {{x,
        x,
        {.function = mul, .a = cubic},
        {.function = add, .operand = 0},
        {.function = mul, .a = slope},
        {.function = tanh},
        one_more,
        x,
        half},
       {{.function = gelu_tanh}}},
      {{x,
        {.function = mul, .a = cubic},
        one_more,
        x,
        {.function = mul, .a = slope},
        {.function = tanh},
        one_more,
        x,
        half},
       {{.function = gelu_tanh}}}};
  for (const auto& [steps, are] : idioms) {
    if (chain.size() < steps.size()) continue;
    const auto end = chain.begin() + static_cast<std::ptrdiff_t>(steps.size());
    const PointwiseChain begin = in_order({chain.begin(), end});
    if (!std::equal(steps.begin(), steps.end(), begin.begin(), alike)) continue;
    chain.insert(chain.erase(chain.begin(), end), are.begin(), are.end());
  }
  return chain;
}

}  // namespace

Module::Absorbed Elementwise::absorb(const Module& next, std::span<const Operand> operands) const {
  if (detail::chain_of(*this) == nullptr) return {};
  PointwiseChain chain = chain_;
  if (!detail::append(chain, next, operands)) return {};
  return {.module = std::make_shared<Elementwise>(simplified(std::move(chain)))};
}

PointwiseProblem Elementwise::problem(std::span<const Shape>) const { return {chain_, compute_}; }

}  // namespace lamina
