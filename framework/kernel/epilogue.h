#pragma once

#include <optional>

#include "lamina/kernel/pointwise.h"
#include "lamina/kernel/pool_geometry.h"
#include "lamina/tensor/tensor.h"

/// What a kernel does to operands and results on their way, besides what it is for.
namespace lamina {

/// What is done to a result before it is stored: the chain, then max pooling, after which the output is the pooled map.
/// Operands of the chain are further inputs of the operation, by their number, all of the shape of the result. Sums of
/// codes may become codes before anything else: rules/eight_bits.h has the chains that kernels know.
struct Epilogue {
  PointwiseChain chain = {};
  std::optional<PoolGeometry> pool = {};

  /// What every kernel knows: nothing, or one ReLU, and no pooling.
  bool is_simple() const { return !pool && has_simple_chain(); }
  bool has_simple_chain() const { return chain.empty() || (chain.size() == 1 && relu()); }
  /// What fuller kernels know: functions of the element alone, among them at most one addition of an operand, that
  /// input, and no pooling.
  bool is_residual(int input = 1) const {
    int additions = 0;
    for (const PointwiseStep& step : chain) {
      if (step.second >= 0) return false;
      if (step.operand < 0) continue;
      if (step.function != Pointwise::add || step.operand != input || ++additions > 1) return false;
    }
    return !pool;
  }
  /// Some step of the chain reads an operand.
  bool reads_operands() const {
    for (const PointwiseStep& step : chain) {
      if (step.operand >= 0 || step.second >= 0) return true;
    }
    return false;
  }
  /// The first step rounds to codes.
  bool rounds() const { return !chain.empty() && chain[0].function == Pointwise::to_codes; }
  /// The last step's; null if that looks up nothing.
  const CodeTable* table() const { return chain.empty() ? nullptr : chain.back().table.get(); }
  /// The chain ends in a ReLU.
  bool relu() const { return !chain.empty() && chain.back() == PointwiseStep{Pointwise::relu}; }
};

}  // namespace lamina
