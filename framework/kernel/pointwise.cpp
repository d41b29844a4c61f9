#include "lamina/kernel/pointwise.h"

#include <algorithm>

namespace lamina {
namespace {

constexpr PointwiseFunction functions[] = {
#define LAMINA_POINTWISE_ROW(name, operands, numbers, truth) \
  {Pointwise::name, #name, operands, PointwiseFunction::Numbers::numbers, truth},
    LAMINA_POINTWISE_FUNCTIONS(LAMINA_POINTWISE_ROW)
#undef LAMINA_POINTWISE_ROW
        {Pointwise::to_codes, "to_codes", 1},
    {Pointwise::look_up, "table", 1}};

}  // namespace

std::span<const PointwiseFunction> pointwise_functions() {
  return std::span(functions).first(static_cast<std::size_t>(Pointwise::to_codes));
}

const PointwiseFunction& describe(Pointwise function) { return functions[static_cast<std::size_t>(function)]; }

int inputs_of(const PointwiseChain& chain) {
  int inputs = 1;
  for (const PointwiseStep& step : chain) inputs = std::max({inputs, step.operand + 1, step.second + 1});
  return inputs;
}

bool is_commutative(Pointwise function) {
  using enum Pointwise;
  return function == add || function == mul || function == min || function == max;
}

}  // namespace lamina
