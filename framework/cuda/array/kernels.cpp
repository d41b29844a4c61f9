// The tables of a GPU's kernels for arrays of any shape: functions of their elements, moves, reductions, norms.

#include "lamina/cuda/eight_bits/kernels.h"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/map/map.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/extents.h"

namespace lamina {
namespace {

using namespace cuda;

/// Byte after byte, so that both lie alike.
bool takes_table(const PointwiseProblem& problem, const Preparation& p) {
  return detail::is_code_table(problem, p) && p.input().shape == p.output().shape &&
         detail::same_order(p.input().shape, p.input().format.layout, p.output().format.layout);
}

constexpr Kernel<PointwiseProblem> functions[] = {
    {"table", takes_table, prepare_table, nullptr, reads::codes | reads::table},
    {"codes", takes_pointwise_of_codes, prepare_pointwise_of_codes, nullptr, reads::codes},
    map_row<PointwiseProblem>,
    plain_row<PointwiseProblem>};
constexpr Kernel<ConcatProblem> concat[] = {
    {"rows", detail::joins_rows, prepare_concat, nullptr, reads::slices | reads::codes}};
constexpr Kernel<MoveProblem> move[] = {map_row<MoveProblem>, plain_row<MoveProblem>};
constexpr Kernel<ReduceProblem> reduce[] = {
    {"places", takes_places, prepare_places}, map_row<ReduceProblem>, plain_row<ReduceProblem>};
constexpr Kernel<NormProblem> norm[] = {map_row<NormProblem>, plain_row<NormProblem>};

}  // namespace

// clang-format off
template <> std::span<const Kernel<PointwiseProblem>> Kernels<PointwiseProblem>::cuda() { return functions; }
template <> std::span<const Kernel<ConcatProblem>> Kernels<ConcatProblem>::cuda() { return concat; }
template <> std::span<const Kernel<MoveProblem>> Kernels<MoveProblem>::cuda() { return move; }
template <> std::span<const Kernel<ReduceProblem>> Kernels<ReduceProblem>::cuda() { return reduce; }
template <> std::span<const Kernel<NormProblem>> Kernels<NormProblem>::cuda() { return norm; }
// clang-format on

}  // namespace lamina
