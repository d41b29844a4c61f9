#pragma once

#include <optional>

#include "lamina/kernel/pointwise.h"
#include "lamina/kernel/pool_geometry.h"
#include "lamina/tensor/tensor.h"

/// What a kernel does to operands and results on their way, besides what it is for.
namespace lamina {

/// What is done to an input before the padding's zeros are put around it, channel by channel: activate(scale x +
/// shift).
struct Prologue {
  Tensor scale = {}, shift = {};  ///< [C], or undefined: nothing is done
  PointwiseChain activation = {};
};

/// What is done to a result before it is stored: the chain, then max pooling, after which the output is the pooled map.
struct Epilogue {
  PointwiseChain chain = {};
  std::optional<PoolGeometry> pool = {};

  /// What every kernel knows: nothing, or one ReLU, and no pooling.
  bool is_simple() const { return !pool && has_simple_chain(); }
  bool has_simple_chain() const { return chain.empty() || (chain.size() == 1 && relu()); }
  /// The chain ends in a ReLU.
  bool relu() const { return !chain.empty() && chain.back() == PointwiseStep{Pointwise::relu}; }
};

}  // namespace lamina
