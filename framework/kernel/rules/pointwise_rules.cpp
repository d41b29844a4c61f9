#include "lamina/kernel/rules/pointwise_rules.h"

#include <algorithm>

#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina::detail {

bool applies(Pointwise function, DType compute) {
  const bool whole = compute == DType::i64 || compute == DType::u64;
  switch (function) {
    case Pointwise::bit_not:
    case Pointwise::bit_and:
    case Pointwise::bit_or:
    case Pointwise::bit_xor:
    case Pointwise::shift_left:
    case Pointwise::shift_right: return whole;
    case Pointwise::relu:
    case Pointwise::abs:
    case Pointwise::neg:
    case Pointwise::sign:
    case Pointwise::floor:
    case Pointwise::ceil:
    case Pointwise::round:
    case Pointwise::is_nan:
    case Pointwise::is_inf:
    case Pointwise::logical_not:
    case Pointwise::identity:
    case Pointwise::add:
    case Pointwise::sub:
    case Pointwise::mul:
    case Pointwise::div:
    case Pointwise::pow:
    case Pointwise::min:
    case Pointwise::max:
    case Pointwise::mod:
    case Pointwise::fmod:
    case Pointwise::prelu:
    case Pointwise::thresholded_relu:
    case Pointwise::equal:
    case Pointwise::less:
    case Pointwise::less_equal:
    case Pointwise::greater:
    case Pointwise::greater_equal:
    case Pointwise::logical_and:
    case Pointwise::logical_or:
    case Pointwise::logical_xor:
    case Pointwise::clip:
    case Pointwise::where: return true;
    default: return !whole;
  }
}

bool is_computable(const PointwiseProblem& problem, const Preparation& p) {
  const DType t = problem.compute;
  if (t != DType::f32 && t != DType::f64 && t != DType::i64 && t != DType::u64) return false;
  if (p.inputs.empty() || p.outputs.size() != 1) return false;
  if (problem.table != nullptr && !is_code_table(problem, p)) return false;
  const auto inputs = static_cast<int>(p.inputs.size());
  const auto computable = [&](const PointwiseStep& step) {
    return applies(step.function, t) && step.operand < inputs && step.second < inputs;
  };
  const auto fits = [&](const View& input) { return broadcasts(input.shape, p.output().shape); };
  return std::ranges::all_of(problem.chain, computable) && std::ranges::all_of(p.inputs, fits);
}

}  // namespace lamina::detail
