#pragma once

#include <optional>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/bf16/moves.h"
#include "lamina/kernel/problems.h"

/// Groups of fewer than 32 channels, several of them as one of 32 with zeros between: a tile then has 32 channels and
/// 32 filters in place of a few. The sums are the same bit for bit, a zero's products being zeros, unless a number is
/// infinite or NaN, which times 0 is NaN: those inputs are to be computed group by group.
namespace lamina::cpu::bf16 {

/// The problem with larger groups; nothing if its groups do not come to 32 channels and as many filters.
std::optional<ConvProblem> joined(const ConvProblem& problem);

/// Whether the channels of all pixels, `pitch` elements apart, are finite.
bool all_finite(const Moves& moves, const bfloat16* input, std::int64_t pixels, std::int64_t channels,
                std::int64_t pitch, ThreadPool& pool);

}  // namespace lamina::cpu::bf16
