// Filters of zeros. Kernels on tensor cores take filters by eights in 16 bits; a layer of 195, of which moves take the
// parts (queries, contexts and three gates; the boxes and scores of a detector), runs on slower ones. Where moves are
// all that read it, nobody sees how many filters it has: it gets some that are zero, and the moves step over them.

#include <algorithm>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"

namespace lamina::detail {
namespace {

constexpr std::int64_t together = 8, least = 64;  // filters; of fewer, those of zeros would be too many

/// The move of elements that lie `block` by `block` behind each other, where each block has `longer` instead; nothing
/// if an axis goes through more than one of them by steps that are no whole ones.
std::optional<MoveProblem> stepping_over(MoveProblem move, std::int64_t block, std::int64_t longer) {
  std::int64_t within = 0;  // the furthest that axes go inside a block
  for (MoveProblem::Axis& axis : move.axes) {
    std::int64_t furthest = 0;
    for (std::int64_t& offset : axis.offsets) {
      if (offset < 0) continue;
      furthest = std::max(furthest, offset % block);
      offset = offset / block * longer + offset % block;
    }
    if (axis.offsets.empty() && axis.stride % block == 0) {
      axis.stride = axis.stride / block * longer;
    } else if (axis.offsets.empty()) {
      if (axis.stride < 0) return std::nullopt;
      furthest = (axis.extent - 1) * axis.stride;
    }
    within += furthest;
  }
  return within < block ? std::optional(std::move(move)) : std::nullopt;
}

/// With zeros behind.
Tensor lengthened(const Tensor& values, std::int64_t filters) {
  if (!values.defined()) return {};
  Shape shape = values.shape();
  shape.set(0, filters);
  Tensor result(shape);
  std::ranges::copy(values.values<float>(), result.values<float>().begin());
  std::ranges::fill(result.values<float>().subspan(static_cast<std::size_t>(values.numel())), 0.0f);
  return result;
}

class Filters : Dataflow {
 public:
  using Dataflow::Dataflow;

  void fill() {
    for (Operation& op : program_.operations) {
      if (op.module == nullptr || op.view) continue;
      if (auto conv = convolution(op, op.inputs.size())) {
        const bool one_group = conv->geometry.groups == 1;
        if (one_group) fill(op, *conv, 1, conv->geometry.out_channels);
      } else if (auto linear = problem_of<LinearProblem>(op)) {
        const bool of_rows = extent(op.inputs[0], -1) == linear->in;  // no image that it makes a row of
        const int last = static_cast<int>(shape(op.output).rank()) - 1;
        if (of_rows && !linear->eight.defined()) fill(op, *linear, last, linear->out);
      }
    }
    finish();
  }

 private:
  /// `dim`: of the output, that of the filters; `count`: the problem's own number of them.
  template <class Problem>
  void fill(Operation& op, Problem& problem, int dim, int& count) {
    const std::int64_t filters = count, more = round_up(filters, together);
    if (filters < least || filters == more || op.inputs.size() != 1 || problem.epilogue.pool ||
        !problem.weight.defined() || is_output(op.output)) {
      return;
    }
    const Shape before = shape(op.output);
    Shape after = before;
    after.set(dim, more);
    std::int64_t inner = 1;
    for (int d = dim + 1; d < static_cast<int>(before.rank()); ++d) inner *= before[d];
    std::vector<std::pair<int, MoveProblem>> moves;
    for (const int reader : readers(op.output)) {
      const Operation& move = operation(reader);
      const auto found = move_of(&move);
      auto over = found ? stepping_over(*found, filters * inner, more * inner) : std::nullopt;
      if (!over) return;
      moves.emplace_back(reader, std::move(*over));
    }
    problem.weight = lengthened(problem.weight, more), problem.bias = lengthened(problem.bias, more);
    count = static_cast<int>(more);
    replace(op, std::make_shared<Fixed<Problem>>(std::move(problem), after, DType::f32), op.inputs, after);
    for (auto& [reader, move] : moves) {
      Operation& by = operation(reader);
      const Shape to = shape(by.output);
      replace(by, std::make_shared<Fixed<MoveProblem>>(std::move(move), to, DType::f32), by.inputs, to);
    }
  }
};

}  // namespace

void fill_filters(Program& program, const CompileOptions& options) {
  if (options.device.is_cuda() && size_of(storage_type(options.precision)) == 2) Filters(program, options).fill();
}

}  // namespace lamina::detail
