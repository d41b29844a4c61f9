#pragma once

#include <optional>

#include "lamina/cuda/conv2d/eight_bits_ends.h"
#include "lamina/cuda/eight_bits/rounding.h"

/// What becomes of the sums of codes where codes are added to others by computing them.
namespace lamina::cuda::eight_bits {

/// What becomes of sums of codes: codes, which are looked up, or added to others.
struct CodeEnds {
  SumsEnd end = {};
  const std::uint8_t* table = nullptr;  // [256]
  Reading own = {}, others = {};
  Rounding again = {};  // of their sum
};

/// Whether it is for them: codes by themselves, looked up or added to others, of numbers of ordinary size.
bool ends_in_codes(const ConvProblem& problem, const Preparation& preparation);
/// `channels`: what else their own codes take.
CodeEnds ends_of_codes(const ConvProblem& problem, const Preparation& preparation, Constants& constants,
                       std::optional<detail::ChannelEnd>& channels);

}  // namespace lamina::cuda::eight_bits
