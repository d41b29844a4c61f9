#include "lamina/cuda/finish.h"

#include <algorithm>
#include <optional>
#include <span>

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
    case Pointwise::prelu: finish.kind = Finish::Kind::leaky, finish.low = static_cast<float>(step.a); return finish;
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

Finish finish_of(const Epilogue& epilogue, DType output, bool adds_last) {
  std::span<const PointwiseStep> rest = epilogue.chain;
  using Addition = Finish::Addition;
  const auto adds = [](const PointwiseStep& step) { return step.operand >= 0; };
  Addition addition = Addition::none;
  if (!rest.empty() && adds(rest.front())) {
    addition = Addition::first, rest = rest.subspan(1);
  } else if (adds_last && !rest.empty() && adds(rest.back())) {
    addition = Addition::last, rest = rest.first(rest.size() - 1);
  }
  std::optional<Finish> finish = Finish();
  if (!rest.empty()) finish = rest.size() == 1 && !adds(rest[0]) ? inlined(rest[0], output) : std::nullopt;
  if (!finish) finish.emplace().kind = Finish::Kind::chain;
  finish->addition = addition;
  for (const PointwiseStep& step : epilogue.chain) finish->step[finish->steps++] = step_as<float>(step);
  return *finish;
}

bool is_short(const Epilogue& epilogue, DType output) {
  using Kind = Finish::Kind;
  if (epilogue.chain.size() > 1 || epilogue.reads_operands()) return false;
  const Kind kind = finish_of(epilogue, output).kind;
  return kind == Kind::clamp || kind == Kind::silu || kind == Kind::hard_swish || kind == Kind::leaky;
}

}  // namespace lamina::cuda
