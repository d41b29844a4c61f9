#include "lamina/cpu/conv2d/row_epilogue.h"

#include <algorithm>

#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::cpu {
namespace {

/// Elements at a time: two blocks and their numbers are a fraction of L1.
constexpr std::int64_t block = 512;

}  // namespace

RowEpilogue row_epilogue(const Epilogue& epilogue, const DeviceDescription& device) {
  RowEpilogue result;
  result.functions = &best_kernel(apply_kernels(), device);
  auto step = epilogue.chain.begin();
  const auto end = epilogue.chain.end();
  if (step != end && step->function == Pointwise::add && step->operand >= 0) {
    result.adds = true;
    ++step;
  }
  if (const auto bounds = step != end ? detail::clamp_of(*step) : std::nullopt) {
    result.low = bounds->low, result.high = bounds->high;
    ++step;
  }
  result.rest.assign(step, end);
  return result;
}

void apply_rest(const RowEpilogue& epilogue, const float* residual, float* values, std::int64_t count) {
  alignas(64) float spaces[2][block], x[block], y[block];
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t n = std::min(block, count - first);
    const float* value = values + first;
    for (const PointwiseStep& step : epilogue.rest) {
      float* const result = value == spaces[0] ? spaces[1] : spaces[0];
      const int operands = describe(step.function).operands;
      if (operands >= 2 && step.operand < 0) std::fill_n(x, n, static_cast<float>(step.a));
      if (operands >= 3) std::fill_n(y, n, static_cast<float>(step.b));
      const float* const operand = operands < 2 ? value : step.operand < 0 ? x : residual + first;
      apply(*epilogue.functions, step.function, StepOperands<float>{value, operand, operands < 3 ? value : y}, result,
            n);
      value = result;
    }
    std::copy_n(value, n, values + first);
  }
}

}  // namespace lamina::cpu
