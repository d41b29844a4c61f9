// The tables of a CPU's kernels that move, reduce and normalise arrays of any shape.

#include "lamina/cpu/move.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/move_plan.h"

namespace lamina {
namespace {

using detail::make_operator;
using Inputs = std::span<const Tensor>;
using Outputs = std::span<Tensor>;

std::unique_ptr<Operator> prepare_move(const MoveProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  return make_operator("copies", [move = cpu::Move(detail::move_plan(problem, dtype), size_of(dtype))](
                                     Inputs inputs, Outputs outputs, const Execution& execution) {
    move(inputs[0], outputs[0], *execution.pool);
  });
}

constexpr Kernel<MoveProblem> move[] = {{"copies", detail::is_movable, prepare_move}};

}  // namespace

template <>
std::span<const Kernel<MoveProblem>> Kernels<MoveProblem>::cpu() {
  return move;
}

}  // namespace lamina
