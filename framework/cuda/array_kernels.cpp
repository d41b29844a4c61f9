// The tables of a GPU's kernels that move, reduce and normalise arrays of any shape.

#include <algorithm>

#include "lamina/cuda/move.h"
#include "lamina/cuda/norm.h"
#include "lamina/cuda/reduce.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/move_plan.h"
#include "lamina/kernel/norm_rules.h"
#include "lamina/kernel/reduce_plan.h"

namespace lamina {
namespace {

using detail::floats;
using detail::make_operator;
using Inputs = std::span<const Tensor>;
using Outputs = std::span<Tensor>;

int index(const Preparation& p) { return p.device.device.index; }

bool takes_move(const MoveProblem& problem, const Preparation& p) {
  return cuda::Move::takes(problem) && detail::is_movable(problem, p);
}

std::unique_ptr<Operator> prepare_move(const MoveProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  const std::size_t alignment = std::min(p.input().alignment, p.output().alignment);
  cuda::Move move(index(p), detail::move_plan(problem, dtype), size_of(dtype), alignment);
  return make_operator("copies", {.parameters = move.parameter_bytes()},
                       [move](Inputs inputs, Outputs outputs, const Execution& execution) {
                         move.run(inputs[0], outputs[0], execution.stream);
                       });
}

std::unique_ptr<Operator> prepare_reduce(const ReduceProblem& problem, const Preparation& p) {
  return make_operator("threads that meet", [reduce = cuda::Reduce(problem, p), device = index(p)](
                                                Inputs inputs, Outputs outputs, const Execution& execution) {
    reduce.run(device, inputs[0], outputs[0], execution.stream);
  });
}

bool takes_norm(const NormProblem& problem, const Preparation& p) {
  return detail::is_normalisable(problem, p) && p.input().format == p.output().format &&
         p.input().format.dtype != DType::f64;
}

std::unique_ptr<Operator> prepare_norm(const NormProblem& problem, const Preparation& p) {
  const auto on_device = [&](const Tensor& tensor) { return tensor.defined() ? tensor.to(p.device.device) : tensor; };
  const Tensor scale = on_device(problem.scale), shift = on_device(problem.shift);
  const cuda::NormSettings settings = {.length = problem.length,
                                       .eps = static_cast<float>(problem.eps),
                                       .centred = problem.centred,
                                       .inner = problem.inner,
                                       .channels = problem.channels};
  return make_operator("one pass", {.parameters = scale.bytes() + shift.bytes()},
                       [=, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::NormSettings with = settings;
                         with.scale = floats(scale), with.shift = floats(shift);  // which the operator keeps
                         cuda::norm(device, with, outputs[0].dtype(), inputs[0].raw(), outputs[0].raw(),
                                    outputs[0].numel(), execution.stream);
                       });
}

constexpr Kernel<MoveProblem> move[] = {{"copies", takes_move, prepare_move}};
constexpr Kernel<ReduceProblem> reduce[] = {{"threads", detail::is_reducible, prepare_reduce}};
constexpr Kernel<NormProblem> norm[] = {{"rows", takes_norm, prepare_norm}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<MoveProblem>> Kernels<MoveProblem>::cuda() { return move; }
template <> std::span<const Kernel<ReduceProblem>> Kernels<ReduceProblem>::cuda() { return reduce; }
template <> std::span<const Kernel<NormProblem>> Kernels<NormProblem>::cuda() { return norm; }
// clang-format on

}  // namespace lamina
