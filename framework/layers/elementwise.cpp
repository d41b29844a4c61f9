#include "lamina/layers/elementwise.h"

#include <algorithm>

#include "lamina/base/error.h"

namespace lamina {

using detail::fail;

Shape Elementwise::output_shape(std::span<const Shape> inputs) const {
  int operands = 1;
  for (const PointwiseStep& step : chain_) operands = std::max(operands, step.operand + 1);
  if (inputs.size() != static_cast<std::size_t>(operands)) {
    fail(op(), ": expected ", operands, operands == 1 ? " input" : " inputs", ", got ", inputs.size());
  }
  for (const Shape& input : inputs) {
    if (input != inputs[0]) fail(op(), ": expected inputs of one shape, got ", inputs[0], " and ", input);
  }
  return inputs[0];
}

std::shared_ptr<const Module> Elementwise::absorb(const Module& next) const {
  auto longer = std::make_shared<Elementwise>(*this);
  return detail::append(longer->chain_, next) ? longer : nullptr;
}

PointwiseProblem Elementwise::problem(std::span<const Shape>) const { return {chain_}; }

bool detail::append(PointwiseChain& chain, const Module& next) {
  const auto* functions = dynamic_cast<const Elementwise*>(&next);
  if (functions == nullptr) return false;
  for (const PointwiseStep& step : functions->chain()) {
    if (step.operand >= 0) return false;
  }
  chain.insert(chain.end(), functions->chain().begin(), functions->chain().end());
  return true;
}

}  // namespace lamina
