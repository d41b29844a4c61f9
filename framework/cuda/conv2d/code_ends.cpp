#include "lamina/cuda/conv2d/code_ends.h"

#include <algorithm>

#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::cuda::eight_bits {

bool ends_in_codes(const ConvProblem& problem, const Preparation& p) {
  using namespace lamina::detail;
  const EightBitWeights& eight = problem.eight;
  if (!is_code(p.output())) return false;
  if (!is_sum_of_eight_bits(problem, p)) return is_eight_bits_and_table(problem, p);
  return operands_fit(p) && Rounding(p.output()).inverse != 0 &&
         std::max(eight.codes.scale, p.inputs[1].quantization.scale) < 1e15f;
}

CodeEnds ends_of_codes(const ConvProblem& problem, const Preparation& p, Constants& constants,
                       std::optional<detail::ChannelEnd>& channels) {
  const detail::CodesAlone alone(problem, p);
  channels = detail::channel_end(alone.problem, alone.preparation, p.input().quantization.zero_point);
  CodeEnds ends = {.end = channels->end};
  if (const auto& table = problem.eight.table) {
    ends.table = constants.add(std::vector<std::uint8_t>(table->begin(), table->end()));
  }
  if (p.inputs.size() == 1) return ends;
  const PointwiseChain& chain = problem.epilogue.chain;
  const auto clamp = chain.size() == 1 ? detail::Bounds() : *detail::clamp_of(chain[1]);
  ends.own = Reading(alone.output), ends.others = Reading(p.inputs[1]);
  ends.again = Rounding(p.output());
  ends.again.clamp(clamp.low, clamp.high);
  return ends;
}

}  // namespace lamina::cuda::eight_bits
