#include "lamina/kernel/rules/pointwise_rules.h"

#include <algorithm>

#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina::detail {

bool applies(Pointwise function, DType compute) {
  using Numbers = PointwiseFunction::Numbers;
  const Numbers numbers = describe(function).numbers;
  return numbers == Numbers::all || (numbers == Numbers::whole) == !is_float(compute);
}

bool is_computable(const PointwiseProblem& problem, const Preparation& p) {
  const DType t = problem.compute;
  if (t != DType::f32 && t != DType::f64 && t != DType::i64 && t != DType::u64) return false;
  if (p.inputs.empty() || p.outputs.size() != 1) return false;
  const auto inputs = static_cast<int>(p.inputs.size());
  const auto computable = [&](const PointwiseStep& step) {
    return applies(step.function, t) && step.operand < inputs && step.second < inputs;
  };
  const auto fits = [&](const View& input) { return broadcasts(input.shape, p.output().shape); };
  return std::ranges::all_of(problem.chain, computable) && std::ranges::all_of(p.inputs, fits);
}

bool has_runs_of(std::int64_t elements, const Preparation& p) {
  if (!p.has_slices() && !p.has_strides()) return true;
  const WalkAxis inner = broadcast_walk(p.output(), p.inputs).back();
  const auto has_run = [&](const View& view, std::size_t array) {
    return !(view.is_slice() || view.is_strided()) || inner.strides[array] == 1;
  };
  bool result = inner.extent % elements == 0 && has_run(p.output(), 0);
  for (std::size_t i = 0; i < p.inputs.size(); ++i) result &= has_run(p.inputs[i], i + 1);
  return result;
}

}  // namespace lamina::detail
