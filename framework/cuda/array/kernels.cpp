// The tables of a GPU's kernels for arrays of any shape: functions of their elements, moves, reductions, norms.

#include <algorithm>

#include "lamina/cuda/array/broadcast.h"
#include "lamina/cuda/array/concat.h"
#include "lamina/cuda/array/move.h"
#include "lamina/cuda/array/norm.h"
#include "lamina/cuda/array/reduce.h"
#include "lamina/cuda/eight_bits/elementwise.h"
#include "lamina/cuda/elementwise.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/extents.h"
#include "lamina/kernel/rules/move/plan.h"
#include "lamina/kernel/rules/norm_rules.h"
#include "lamina/kernel/rules/pointwise_rules.h"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina {
namespace {

using namespace tables;

bool takes_pointwise(const PointwiseProblem& problem, const Preparation& p) {
  const auto whole = [&](const View& input) { return input.shape == p.output().shape; };
  const DType dtype = p.input().format.dtype;
  return detail::is_computable(problem, p) && p.keeps_format() && problem.compute == DType::f32 &&
         is_activation(dtype) && p.inputs.size() <= cuda::max_pointwise_operands &&
         std::ranges::all_of(p.inputs, whole) && cuda::packs_take(problem.chain);
}

/// Not to turn a whole array's layout on its way, which goes against the grain of memory: where there are operands of
/// the output's size, one of them lies as it does.
bool takes_broadcast(const PointwiseProblem& problem, const Preparation& p) {
  if (!detail::is_computable(problem, p) || (p.has_codes() && problem.compute != DType::f32)) return false;
  const auto whole = [&](const View& input) { return input.shape == p.output().shape; };
  const auto alike = [&](const View& input) {
    return whole(input) && detail::same_order(input.shape, input.format.layout, p.output().format.layout);
  };
  return p.inputs.size() <= cuda::Broadcast::max_inputs && problem.chain.size() <= cuda::Broadcast::max_steps &&
         (std::ranges::none_of(p.inputs, whole) || std::ranges::any_of(p.inputs, alike));
}

std::unique_ptr<Operator> prepare_broadcast(const PointwiseProblem& problem, const Preparation& p) {
  return make_operator("elementwise", [broadcast = cuda::Broadcast(problem, p), device = index(p)](
                                          Inputs inputs, Outputs outputs, const Execution& execution) {
    broadcast.run(device, inputs, outputs[0], execution.stream);
  });
}

/// Of codes to codes, one of 256 for each.
bool takes_table(const PointwiseProblem& problem, const Preparation& p) {
  return detail::is_code_table(problem, p) && takes_broadcast(problem, p);
}

std::unique_ptr<Operator> prepare_table(const PointwiseProblem& problem, const Preparation& p) {
  return make_operator("table of 256", [table = detail::code_table(problem, p), device = index(p)](
                                           Inputs inputs, Outputs outputs, const Execution& execution) {
    cuda::look_up(device, table, inputs[0].raw(), outputs[0].raw(), outputs[0].numel(), execution.stream);
  });
}

std::unique_ptr<Operator> prepare_pointwise(const PointwiseProblem& problem, const Preparation& p) {
  return make_operator("elementwise",
                       [problem, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::pointwise(device, outputs[0].dtype(), problem.chain, inputs, outputs[0].raw(),
                                         outputs[0].numel(), execution.stream);
                       });
}

std::unique_ptr<Operator> prepare_concat(const ConcatProblem& problem, const Preparation& p) {
  return make_operator("one launch", [rows = detail::concat_rows(problem, p), device = index(p)](
                                         Inputs inputs, Outputs outputs, const Execution& execution) {
    cuda::concat(device, inputs, rows, outputs[0].raw(), execution.stream);
  });
}

bool takes_move(const MoveProblem& problem, const Preparation& p) {
  const bool slices_fit = !p.input().is_slice() && (!p.has_slices() || p.output().format.layout == Layout::nhwc);
  return cuda::Move::takes(problem) && slices_fit && detail::is_movable(problem, p);
}

std::unique_ptr<Operator> prepare_move(const MoveProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  const std::size_t alignment = std::min(p.input().alignment, p.output().alignment);
  const View& output = p.output();
  const std::int64_t row = output.is_slice() ? output.shape[1] : 1;
  const std::int64_t gap = output.is_slice() ? output.channels - row : 0;
  MoveProblem filled = problem;
  if (p.has_codes()) filled.fill = detail::code_of(static_cast<float>(problem.fill), p.input().quantization, dtype);
  cuda::Move move(index(p), detail::move_plan(filled, p), size_of(dtype), alignment, row, gap);
  return make_operator("copies", {.parameters = move.parameter_bytes(), .heeds_neighbours = true},
                       [move](Inputs inputs, Outputs outputs, const Execution& execution) {
                         move.run(inputs[0], outputs[0], execution.neighbours, execution.stream);
                       });
}

std::unique_ptr<Operator> prepare_reduce(const ReduceProblem& problem, const Preparation& p) {
  return make_operator("threads that meet", [reduce = cuda::Reduce(problem, p), device = index(p)](
                                                Inputs inputs, Outputs outputs, const Execution& execution) {
    reduce.run(device, inputs[0], outputs[0], execution.stream);
  });
}

bool takes_norm(const NormProblem& problem, const Preparation& p) {
  return detail::is_normalisable(problem, p) && problem.epilogue.chain.empty() &&
         p.input().format == p.output().format && p.input().format.dtype != DType::f64;
}

std::unique_ptr<Operator> prepare_norm(const NormProblem& problem, const Preparation& p) {
  const auto on_device = [&](const Tensor& tensor) { return tensor.defined() ? tensor.to(p.device.device) : tensor; };
  const Tensor scale = on_device(problem.scale), shift = on_device(problem.shift);
  const cuda::NormSettings settings = {.length = problem.length,
                                       .eps = static_cast<float>(problem.eps),
                                       .centred = problem.centred,
                                       .inner = problem.inner,
                                       .channels = problem.channels};
  return make_operator("one pass",
                       {.workspace = cuda::norm_workspace(problem.length, p.input().shape.numel()),
                        .parameters = scale.bytes() + shift.bytes()},
                       [=, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cuda::NormSettings with = settings;
                         with.scale = floats(scale), with.shift = floats(shift);  // which the operator keeps
                         cuda::norm(device, with, outputs[0].dtype(), inputs[0].raw(), outputs[0].raw(),
                                    outputs[0].numel(), execution.workspace, execution.stream);
                       });
}

constexpr Kernel<PointwiseProblem> pointwise[] = {
    {"pointwise", takes_pointwise, prepare_pointwise},
    {"table", takes_table, prepare_table, nullptr, false, false, false, true},
    {"broadcast", takes_broadcast, prepare_broadcast, nullptr, false, false, false, true}};
constexpr Kernel<ConcatProblem> concat[] = {
    {"rows", detail::joins_rows, prepare_concat, nullptr, true, false, false, true}};
constexpr Kernel<MoveProblem> move[] = {{"copies", takes_move, prepare_move, nullptr, true, false, false, true}};
constexpr Kernel<ReduceProblem> reduce[] = {{"threads", detail::is_reducible, prepare_reduce}};
constexpr Kernel<NormProblem> norm[] = {{"rows", takes_norm, prepare_norm}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<PointwiseProblem>> Kernels<PointwiseProblem>::cuda() { return pointwise; }
template <> std::span<const Kernel<ConcatProblem>> Kernels<ConcatProblem>::cuda() { return concat; }
template <> std::span<const Kernel<MoveProblem>> Kernels<MoveProblem>::cuda() { return move; }
template <> std::span<const Kernel<ReduceProblem>> Kernels<ReduceProblem>::cuda() { return reduce; }
template <> std::span<const Kernel<NormProblem>> Kernels<NormProblem>::cuda() { return norm; }
// clang-format on

}  // namespace lamina
