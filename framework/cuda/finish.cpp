#include "lamina/cuda/finish.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "lamina/cuda/short_finish.h"
#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::cuda {
namespace {

/// The one function as what is inlined; nothing if it is not.
std::optional<Finish> inlined(const PointwiseStep& step, DType output) {
  Finish finish;
  switch (step.function) {
    case Pointwise::relu: finish.low = 0.0f; return finish;
    case Pointwise::clip:
      finish.low = static_cast<float>(step.a), finish.high = static_cast<float>(step.b);
      if (!(finish.low <= finish.high)) return {};
      return finish;
    case Pointwise::silu: finish.kind = Finish::Kind::silu; return finish;
    case Pointwise::gelu:
      if (size_of(output) > 2) return {};
      finish.kind = Finish::Kind::gelu;
      return finish;
    case Pointwise::hard_swish: finish.kind = Finish::Kind::hard_swish; return finish;
    default: return {};
  }
}

}  // namespace

bool finish_takes(const Epilogue& epilogue, const Preparation& p) {
  if (!epilogue.is_residual() || epilogue.chain.size() > max_finish_steps ||
      !std::ranges::all_of(epilogue.chain, is_common, &PointwiseStep::function)) {
    return false;
  }
  return (!epilogue.reads_operands() || p.inputs.size() > 1) && detail::operands_fit(p);
}

Finish finish_of(const Epilogue& epilogue, DType output) {
  const PointwiseChain& chain = epilogue.chain;
  const std::size_t first = !chain.empty() && chain[0].operand >= 0 ? 1 : 0;
  Finish finish;
  if (chain.size() == first + 1) {
    const auto known = chain[first].operand < 0 ? inlined(chain[first], output) : std::nullopt;
    if (known) finish = *known;
    if (!known) finish.kind = Finish::Kind::chain;
  } else if (chain.size() > first) {
    finish.kind = Finish::Kind::chain;
  }
  for (const PointwiseStep& step : chain) finish.step[finish.steps++] = step_as<float>(step);
  return finish;
}

bool is_short(const Epilogue& epilogue, DType output) {
  using Kind = Finish::Kind;
  if (epilogue.chain.size() > 1 || epilogue.reads_operands()) return false;
  const Kind kind = finish_of(epilogue, output).kind;
  return kind == Kind::clamp || kind == Kind::silu || kind == Kind::hard_swish;
}

}  // namespace lamina::cuda
