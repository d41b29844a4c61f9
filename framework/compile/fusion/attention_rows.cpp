// Attention of which only one row of each image and head is read, such as the class token's in a transformer's last
// block, is computed for that row's query alone.

#include <memory>
#include <optional>
#include <utility>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/views.h"

namespace lamina::detail {
namespace {

/// The row of a result [N, H, L, E] that a move takes of every image and head, and nothing else, in their order.
std::optional<std::int64_t> one_row(const MoveProblem& move, const Shape& from, const Shape& to) {
  if (from.rank() != 4) return std::nullopt;
  const std::int64_t rows = from[0] * from[1], length = from[2], width = from[3];
  if (length < 2 || width == 0 || rows == 0 || to.numel() != rows * width) return std::nullopt;
  const auto place = [&](std::int64_t element) {
    std::int64_t at = 0;
    for (auto axis = move.axes.rbegin(); axis != move.axes.rend(); ++axis) {
      const std::int64_t i = element % axis->extent;
      element /= axis->extent;
      if (!axis->offsets.empty() && axis->offsets[static_cast<std::size_t>(i)] < 0) return std::int64_t{-1};
      at += axis->offsets.empty() ? i * axis->stride : axis->offsets[static_cast<std::size_t>(i)];
    }
    return at;
  };
  const std::int64_t row = place(0) / width;
  for (std::int64_t i = 0; i < rows * width; ++i) {
    if (place(i) != (i / width * length + row) * width + i % width) return std::nullopt;
  }
  return row;
}

class AttentionRows : Dataflow {
 public:
  using Dataflow::Dataflow;

  void narrow() {
    for (Operation& op : program_.operations) narrow(op);
    finish();
  }

 private:
  void narrow(Operation& move) {
    const auto taken = move_of(&move);
    Operation* const attention = taken ? only_for(move.inputs[0]) : nullptr;
    const auto problem = solved_by<AttentionProblem>(attention);
    if (!problem || problem->causal || attention->inputs.size() != 3) return;
    if (program_.value(attention->output).format.dtype != DType::f32) return;  // a network's own f16
    const auto row = one_row(*taken, shape(attention->output), shape(move.output));
    if (!row) return;

    const int all = attention->inputs[0];
    const Shape from = shape(all);
    const std::int64_t length = from[2], depth = from[3];
    const MoveProblem some = {
        .axes = {{from[0], from[1] * length * depth}, {from[1], length * depth}, {1, 0, {*row * depth}}, {depth, 1}}};
    const Shape one{from[0], from[1], 1, depth}, result{from[0], from[1], 1, shape(attention->output)[3]};
    Operation query = move_from(program_.value(all).name + " (rows)", all, some, one);
    Operation narrower = *attention;
    narrower.module = std::make_shared<Fixed<AttentionProblem>>(*problem, result, DType::f32);
    narrower.inputs[0] = query.output;
    const Shape before = std::exchange(program_.value(attention->output).shape, result);
    if (!has_paying_kernel(narrower)) {
      program_.value(attention->output).shape = before;
      return;
    }
    insert(*attention, std::move(query));
    replace(*attention, std::move(narrower));
    replace(move, std::make_shared<Reshape>(shape(move.output)), move.inputs, shape(move.output));
  }
};

}  // namespace

void narrow_attention(Program& program, const CompileOptions& options) { AttentionRows(program, options).narrow(); }

}  // namespace lamina::detail
