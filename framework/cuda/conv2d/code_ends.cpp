#include "lamina/cuda/conv2d/code_ends.h"

#include <algorithm>

#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::cuda::eight_bits {

bool ends_in_codes(const ConvProblem& problem, const Preparation& p) {
  using namespace lamina::detail;
  if (!is_code(p.output()) || !is_eight_bits(problem, p)) return false;
  const CodeSteps steps = *code_steps(problem.epilogue.chain);
  if (steps.operand == nullptr) return true;
  return adds_codes(steps, p) && operands_fit(p, steps.operand->operand) && Rounding(p.output()).inverse != 0 &&
         std::max(steps.own->codes.scale, p.inputs.back().quantization.scale) < 1e15f;
}

CodeEnds ends_of_codes(const ConvProblem& problem, const Preparation& p, Constants& constants,
                       std::optional<detail::ChannelEnd>& channels) {
  channels = detail::channel_end(problem, p, detail::multiplied(problem, p).quantization.zero_point);
  CodeEnds ends = {.end = channels->end};
  const detail::CodeSteps steps = *detail::code_steps(problem.epilogue.chain);
  if (steps.table) ends.table = constants.add(std::vector<std::uint8_t>(steps.table->begin(), steps.table->end()));
  if (steps.operand == nullptr) return ends;
  ends.own = Reading(detail::rounded_first(problem, p)), ends.others = Reading(p.inputs.back());
  ends.again = Rounding(p.output());
  ends.again.clamp(steps.bounds.low, steps.bounds.high);
  return ends;
}

}  // namespace lamina::cuda::eight_bits
