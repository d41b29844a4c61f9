#include "lamina/quantize/steps.h"

#include <cmath>

#include "lamina/layers/fixed.h"
#include "lamina/ops/op.h"

namespace lamina::detail {

int behind_identities(const Graph& graph, int node) {
  const auto module = [&](int i) { return graph.nodes()[static_cast<std::size_t>(i)].module.get(); };
  int at = node;
  while (at >= 0 && module(at) != nullptr && module(at)->op() == "Identity")
    at = graph.nodes()[static_cast<std::size_t>(at)].inputs[0];
  return at >= 0 && dynamic_cast<const Constant*>(module(at)) != nullptr ? at : node;
}

Tensor constant(const Graph& graph, int node) {
  const int at = behind_identities(graph, node);
  const auto* found =
      at < 0 ? nullptr : dynamic_cast<const Constant*>(graph.nodes()[static_cast<std::size_t>(at)].module.get());
  return found == nullptr || found->value().dtype() != DType::f32 ? Tensor() : found->value();
}

StepsOfGelu::StepsOfGelu(const Graph& graph, const std::vector<int>& uses)
    : graph_(graph), uses_(uses), of_(uses.size(), none) {
  for (int i = static_cast<int>(uses.size()); i-- > 0;) find(i);
}

bool StepsOfGelu::is(int i, std::string_view op) const {
  return i >= 0 && node(i).module != nullptr && node(i).module->op() == op && node(i).inputs.size() <= 2;
}

/// What a node is known to be.
std::optional<double> StepsOfGelu::number(int i) const {
  const Tensor known = constant(graph_, i);
  return known.defined() && known.numel() == 1 ? std::optional<double>(known.values<float>()[0]) : std::nullopt;
}

/// The other operand of an op with a number near that, whichever comes first; none if it is something else.
int StepsOfGelu::beside(int i, std::string_view op, double expected) const {
  if (!is(i, op) || node(i).inputs.size() != 2) return none;
  for (const std::size_t place : {std::size_t{0}, std::size_t{1}}) {
    const auto found = number(node(i).inputs[place]);
    if (found && std::abs(*found - expected) < 1e-4 && (op != "Div" || place == 1)) return node(i).inputs[1 - place];
  }
  return none;
}

/// x of 1 + erf(x / sqrt(2)), and the steps on the way.
int StepsOfGelu::argument(int i, std::vector<int>& steps) const {
  const int erf = beside(i, "Add", 1);
  if (!is_alone(i) || !is(erf, "Erf") || !is_alone(erf)) return none;
  const int scaled = node(erf).inputs[0], divided = beside(scaled, "Div", std::sqrt(2.0));
  if (!is_alone(scaled)) return none;
  steps.insert(steps.end(), {i, erf, scaled});
  return divided != none ? divided : beside(scaled, "Mul", std::sqrt(0.5));
}

/// The factors of a product, one of which may be a product.
void StepsOfGelu::factors(int i, bool last, std::vector<int>& of, std::vector<int>& steps) const {
  if (!is(i, "Mul") || (!last && (!is_alone(i) || !steps.empty()))) return of.push_back(i);
  if (!last) steps.push_back(i);
  for (const int input : node(i).inputs) factors(input, false, of, steps);
}

void StepsOfGelu::find(int last) {
  std::vector<int> of, steps;
  factors(last, true, of, steps);
  if (of.size() != 3 || of_[static_cast<std::size_t>(last)] != none) return;
  int half = none, grown = none, x = none;
  for (const int factor : of) {
    std::vector<int> ignored;
    const bool grows = grown == none && argument(factor, ignored) != none;
    (number(factor) == 0.5 ? half : grows ? grown : x) = factor;
  }
  if (half == none || grown == none || x == none || argument(grown, steps) != x) return;
  for (const int step : steps) of_[static_cast<std::size_t>(step)] = inside;
  of_[static_cast<std::size_t>(last)] = x;
}

}  // namespace lamina::detail
