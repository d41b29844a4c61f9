// The tables of a GPU's kernels for arrays of any shape: functions of their elements, moves, reductions, norms.

#include "lamina/cuda/eight_bits/kernels.h"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/map/map.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/extents.h"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina {
namespace {

using namespace cuda;

bool takes_table(const PointwiseProblem& problem, const Preparation& p) {
  return detail::is_code_table(problem, p) && takes_broadcast(problem, p);
}

constexpr Kernel<PointwiseProblem> functions[] = {
    map_row<PointwiseProblem>,
    {"table", takes_table, prepare_table, nullptr, reads::codes | reads::table},
    {"broadcast", takes_broadcast, prepare_broadcast, nullptr, reads::codes}};
constexpr Kernel<ConcatProblem> concat[] = {
    {"rows", detail::joins_rows, prepare_concat, nullptr, reads::slices | reads::codes}};
constexpr Kernel<MoveProblem> move[] = {map_row<MoveProblem>,
                                        {"copies", takes_move, prepare_move, nullptr, reads::slices | reads::codes}};
constexpr Kernel<ReduceProblem> reduce[] = {map_row<ReduceProblem>, {"threads", detail::is_reducible, prepare_reduce}};
constexpr Kernel<NormProblem> norm[] = {map_row<NormProblem>,
                                        {"rows", takes_norm, prepare_norm, nullptr, reads::codes},
                                        {"groups", takes_norm_of_groups, prepare_norm_of_groups, norm_of_groups_pays}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<PointwiseProblem>> Kernels<PointwiseProblem>::cuda() { return functions; }
template <> std::span<const Kernel<ConcatProblem>> Kernels<ConcatProblem>::cuda() { return concat; }
template <> std::span<const Kernel<MoveProblem>> Kernels<MoveProblem>::cuda() { return move; }
template <> std::span<const Kernel<ReduceProblem>> Kernels<ReduceProblem>::cuda() { return reduce; }
template <> std::span<const Kernel<NormProblem>> Kernels<NormProblem>::cuda() { return norm; }
// clang-format on

}  // namespace lamina
