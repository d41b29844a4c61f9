#pragma once

#include <optional>
#include <span>
#include <vector>

#include "lamina/kernel/pointwise.h"
#include "lamina/kernel/problems.h"
#include "lamina/module/module.h"
#include "lamina/tensor/matrices.h"

/// What layers do with those that they absorb.
namespace lamina::detail {

/// Steps of a chain that layers make of what follows them: time is to grow with the network, so a longer one is
/// several.
inline constexpr std::size_t longest_chain = 64;

/// The chain of a module that computes f32 of f32; null of others, and of codes that are looked up.
const PointwiseChain* chain_of(const Module& module);

/// The chain with `next` behind it, whose inputs are `operands`; false if that is no function of f32 elements, or not
/// of the chain's value, or too long.
bool append(PointwiseChain& chain, const Module& next, std::span<const Module::Operand> operands);

/// What a module that follows does, if that is scale x + shift with a known number for each of `channels` along
/// dimension -1 - `trailing` of the output, or x times one number. In double precision: the parameters that they go
/// into are rounded once.
struct PerChannel {
  std::vector<double> scale, shift;  ///< empty: 1, 0
};
std::optional<PerChannel> per_channel(const Module& next, std::span<const Module::Operand> operands,
                                      std::int64_t channels, std::size_t trailing);

/// bias scale + shift, an undefined bias being 0.
Tensor scaled_and_shifted(const Tensor& bias, const PerChannel& factors);
/// Weights in eight bits with each row multiplied by its number, as scaled_rows does it, whose scales take the numbers
/// in (empty: 1). False where they cannot: whole biases have units of their own; one factor for all channels is a
/// function of what is computed, as the file says it.
bool scale_codes(EightBitWeights& eight, std::span<const double> scale);

}  // namespace lamina::detail
