#include "lamina/kernel/rules/lookup/find.h"

#include <algorithm>

#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::detail {

bool is_found(const FindProblem& problem, const Preparation& p) {
  const auto of = [&](std::size_t i, DType dtype, std::size_t rank) {
    return p.inputs.size() > i && p.inputs[i].format.dtype == dtype && p.inputs[i].shape.rank() == rank;
  };
  const View& list = p.output();
  if (!all_plain_layout(p) || list.format.dtype != DType::i64 || list.shape.rank() != 1 || list.shape[0] < 1)
    return false;
  switch (problem.kind) {
    case FindProblem::Kind::count: return of(0, DType::i64, 1) && p.input().shape[0] > 0 && list.shape[0] == 1;
    case FindProblem::Kind::places: return of(0, DType::boolean, 1);
    case FindProblem::Kind::boxes: {
      if (!of(0, DType::f32, 3) || !of(1, DType::f32, 3) || !of(2, DType::f64, 1)) return false;
      const Shape &boxes = p.inputs[0].shape, &scores = p.inputs[1].shape;
      return boxes[2] == 4 && scores[0] == boxes[0] && scores[2] == boxes[1] && p.inputs[2].shape[0] == 3;
    }
    case FindProblem::Kind::unique:
      return (of(0, DType::i64, 2) || of(0, DType::f64, 2)) && of(1, DType::i64, 1) && list.shape[0] % 3 == 1 &&
             list.shape[0] >= 1 + 3 * std::max<std::int64_t>(2, p.input().shape[0]);
  }
  return false;
}

}  // namespace lamina::detail
