// The tables of a CPU's kernels for arrays of any shape: functions of their elements, moves, reductions, norms.

#include <algorithm>

#include "lamina/cpu/array/array.h"
#include "lamina/cpu/array/pointwise.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/move/plan.h"
#include "lamina/kernel/rules/norm_rules.h"
#include "lamina/kernel/rules/pointwise_rules.h"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina {
namespace {

using namespace cpu;

/// Images of the output's shape are stored as it is: to turn one element by element takes longer than a conversion.
/// Operands may have gaps, between runs that are worth a copy.
bool takes_pointwise(const PointwiseProblem& problem, const Preparation& p) {
  const Format to = p.output().format;
  const auto fits = [&](const View& input) {
    return input.shape != p.output().shape || detail::same_order(input.shape, input.format.layout, to.layout);
  };
  const bool gaps = p.has_slices() || p.has_strides();
  if (p.has_codes() && (gaps || problem.compute != DType::f32)) return false;
  if (!detail::is_computable(problem, p) || !std::ranges::all_of(p.inputs, fits)) return false;
  return !gaps || (!p.output().is_slice() && !p.output().is_strided() && detail::has_runs_of(16, p));
}

/// Of codes to codes, one of 256 for each: computed in f64 here and now.
bool takes_table(const PointwiseProblem& problem, const Preparation& p) {
  return detail::is_code_table(problem, p) && takes_pointwise(problem, p);
}

bool is_stored_alike(const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  return p.keeps_format() && (dtype == DType::f32 || dtype == DType::bf16);
}

bool takes_norm(const NormProblem& problem, const Preparation& p) {
  return detail::is_normalisable(problem, p) && is_stored_alike(p);
}

bool takes_norm_of_pixels(const NormProblem& problem, const Preparation& p) {
  return is_stored_alike(p) && detail::is_of_groups(problem, p) && problem.kind <= NormKind::root_mean_square;
}

constexpr Kernel<PointwiseProblem> pointwise[] = {
    {"table", takes_table, prepare_table, nullptr, reads::codes | reads::table},
    {"pointwise", takes_pointwise, prepare_pointwise, nullptr, reads::slices | reads::strides | reads::codes}};
constexpr Kernel<MoveProblem> move[] = {{"copies", detail::is_movable, prepare_move, nullptr, reads::codes}};
constexpr Kernel<ReduceProblem> reduce[] = {{"blocks", detail::is_reducible, prepare_reduce}};
constexpr Kernel<NormProblem> norm[] = {
    {"rows", takes_norm, prepare_norm, nullptr, reads::chain | reads::operands},
    {"pixels", takes_norm_of_pixels, prepare_norm_of_pixels, nullptr, reads::chain | reads::operands}};

}  // namespace

CodeTable detail::code_table(const PointwiseProblem& problem, const Preparation& p, std::span<const CodeTable> of) {
  if (!problem.chain.empty() && problem.chain[0].table) return *problem.chain[0].table;
  const View& to = p.output();
  const bool rounds = !std::ranges::all_of(problem.chain, is_alone);
  CodeTable table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto meaning = [&](std::size_t input) {
      const View& from = p.inputs[input];
      const int byte = of.empty() ? static_cast<int>(i) : of[input][i];
      const int code = from.format.dtype == DType::u8 || byte < 128 ? byte : byte - 256;
      return static_cast<double>(static_cast<float>(code - from.quantization.zero_point) * from.quantization.scale);
    };
    double value = meaning(0);
    for (const PointwiseStep& step : problem.chain) {
      const auto operand = [&](int input, double number) {
        if (input >= 0) return meaning(static_cast<std::size_t>(input));
        return rounds ? static_cast<double>(static_cast<float>(number)) : number;
      };
      const double before = value, x = operand(step.operand, step.a), y = operand(step.second, step.b);
      cpu::apply_kernels().back().doubles(step.function, {&before, &x, &y}, &value, 1);
      if (rounds) value = static_cast<double>(static_cast<float>(value));
    }
    table[i] = static_cast<std::uint8_t>(code_of(static_cast<float>(value), to.quantization, to.format.dtype));
  }
  return table;
}

// clang-format off
template <> std::span<const Kernel<PointwiseProblem>> Kernels<PointwiseProblem>::cpu() { return pointwise; }
template <> std::span<const Kernel<MoveProblem>> Kernels<MoveProblem>::cpu() { return move; }
template <> std::span<const Kernel<ReduceProblem>> Kernels<ReduceProblem>::cpu() { return reduce; }
template <> std::span<const Kernel<NormProblem>> Kernels<NormProblem>::cpu() { return norm; }
// clang-format on

}  // namespace lamina
