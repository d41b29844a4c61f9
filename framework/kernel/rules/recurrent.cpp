#include "lamina/kernel/rules/recurrent.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"
#include "lamina/tensor/constants.h"

namespace lamina::detail {

bool is_recurrence(const RecurrentProblem& problem, const Preparation& p) {
  const bool lstm = problem.cell == Cell::lstm;
  const std::size_t states = problem.initial ? (lstm ? 2 : 1) : 0, lengths = problem.lengths ? 1 : 0;
  if (p.inputs.size() != 1 + states + lengths || p.outputs.size() != 1 || !all_plain_layout(p)) return false;
  if (p.input().shape.rank() != 3) return false;
  const std::int64_t steps = p.input().shape[0], images = p.input().shape[1],
                     units = problem.directions * problem.hidden;
  const auto stored_alike = [&](const View& view) { return view.format.dtype == p.input().format.dtype; };
  const auto is_state = [&](const View& view) { return view.shape == Shape{images, units} && stored_alike(view); };
  const View& last = p.inputs.back();
  if (problem.lengths && (last.shape != Shape{images} || last.format.dtype != DType::i32)) return false;
  return p.input().shape[2] == units * problem.gates() && stored_alike(p.output()) &&
         p.output().shape == Shape{steps + (lstm ? 2 : 1), images, units} &&
         std::ranges::all_of(p.inputs.subspan(1, states), is_state);
}

Tensor weights_by_blocks(const RecurrentProblem& problem, int lanes, DType type) {
  const std::int64_t h = problem.hidden, blocks = ceil_div<std::int64_t>(h, lanes);
  const Shape shape = {problem.directions, problem.gates(), blocks * lanes, h};
  const Packing how("recurrent", problem.cell, lanes, problem.phases(), type);
  return packed(how, {problem.weight}, shape, type, [&](Tensor& to) {
    Tensor all(shape);
    float* at = all.values<float>().data();
    const float* from = problem.weight.values<float>().data();
    for (int d = 0; d < problem.directions; ++d, from += problem.gates() * h * h) {
      for (int i = 0; i < problem.phases(); ++i) {
        const auto [first, gates] = problem.phase(i);
        for (std::int64_t j = 0; j < blocks * h * gates * lanes; ++j) {
          const std::int64_t unit = j / (h * gates * lanes) * lanes + j % lanes, term = j / (gates * lanes) % h;
          *at++ = unit < h ? from[((first + j / lanes % gates) * h + unit) * h + term] : 0.0f;
        }
      }
    }
    to.copy_from(all.to(type));
  });
}

}  // namespace lamina::detail
