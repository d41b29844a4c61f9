#include "lamina/layers/elementwise.h"

#include <algorithm>

#include "lamina/base/error.h"

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
  int operands = 1;
  for (const PointwiseStep& step : chain_) operands = std::max({operands, step.operand + 1, step.second + 1});
  if (inputs.size() != static_cast<std::size_t>(operands)) {
    fail(op(), ": expected ", operands, operands == 1 ? " input" : " inputs", ", got ", inputs.size());
  }
  return detail::broadcast(op(), inputs);
}

DType Elementwise::output_dtype(std::span<const DType>) const { return output_; }

std::shared_ptr<const Module> Elementwise::absorb(const Module& next) const {
  if (compute_ != DType::f32 || output_ != DType::f32) return nullptr;
  auto longer = std::make_shared<Elementwise>(*this);
  return detail::append(longer->chain_, next) ? longer : nullptr;
}

PointwiseProblem Elementwise::problem(std::span<const Shape>) const { return {chain_, compute_}; }

bool detail::append(PointwiseChain& chain, const Module& next) {
  const auto* functions = dynamic_cast<const Elementwise*>(&next);
  if (functions == nullptr || functions->compute() != DType::f32 || functions->output() != DType::f32) return false;
  for (const PointwiseStep& step : functions->chain()) {
    if (step.operand >= 0 || step.second >= 0) return false;
  }
  chain.insert(chain.end(), functions->chain().begin(), functions->chain().end());
  return true;
}

}  // namespace lamina
