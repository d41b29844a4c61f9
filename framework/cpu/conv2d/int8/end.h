#pragma once

#include <optional>
#include <vector>

#include "lamina/cpu/codes.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

/// Convolutions of u8 or i8: what of them does not depend on how they are summed.
namespace lamina::cpu::int8 {

/// What becomes of the sums of (x - x_zero) (w - w_zero), by output channel.
struct ChannelEnd {
  SumsEnd end;
  std::vector<std::int32_t> bias;  ///< added to them
  std::vector<float> factor, float_bias;
};

/// Whether its sums fit i32, and what its epilogue does is a SumsEnd: input 0 in codes, weights in eight bits; output
/// in codes, or of f32 or bf16, or the sums. Any layouts.
bool is_computable(const ConvProblem& problem, const Preparation& preparation);

/// Of a problem that is_computable.
ChannelEnd channel_end(const ConvProblem& problem, const Preparation& preparation);

/// What a channel's bias becomes where sums are of x w: less `zero` for each weight, x's zero point and whatever else x
/// is larger by than the number that it is.
std::int32_t offset_of(const ChannelEnd& end, const ConvProblem& problem, std::size_t channel, std::int32_t zero);

}  // namespace lamina::cpu::int8
