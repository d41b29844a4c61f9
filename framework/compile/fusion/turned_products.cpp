// Products of what is turned.
//
// Attention whose channels come first, as YOLO's and SHViT's: v' p', p the softmax of a product, is (p v)'. What finds
// attention knows the one way; v and the result are then moved, which mostly is to read and write images channels last.
// What a move of its own turns for any other product is turned as that reads it.

#include <algorithm>
#include <memory>
#include <utility>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/rules/move/compose.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/views.h"

namespace lamina::detail {
namespace {

constexpr int most_steps = 8;  // between a softmax and its product

/// Whether an operation is a move that swaps the last two dimensions.
bool swaps_last_two(const Dataflow& flow, const Program::Operation& op) {
  const auto move = flow.solves<MoveProblem>(&op);
  if (!move) return false;
  const View from = {.shape = flow.shape(op.inputs[0])}, to = {.shape = with_last_two_swapped(flow.shape(op.output))};
  const auto back = with_last_two_swapped(*move, flow.shape(op.output));
  return back && from.shape == to.shape && is_still(*back, {.inputs = {&from, 1}, .outputs = {&to, 1}, .device = {}});
}

class TurnedProducts : Dataflow {
 public:
  using Dataflow::Dataflow;

  void turn() {
    for (Operation& op : program_.operations) turn(op);
    finish();
  }

 private:
  void turn(Operation& op) {
    const auto product = solves<MatMulProblem>(&op);
    if (!product || product->transpose_a || product->alpha != 1 || !is_floats(op.output)) return;
    int weights = op.inputs[1];
    if (!product->transpose_b) {
      const Operation* const move = only_for(weights);
      if (move == nullptr || !swaps_last_two(*this, *move)) return;
      weights = move->inputs[0];
    }
    const Shape values = shape(op.inputs[0]), result = shape(op.output);
    if (!is_softmax_of_product(weights) || values.rank() != result.rank()) return;
    const int turned = insert(op, swapped(op.name + " (values)", op.inputs[0]));
    const int found = insert(op, operation_of(op.name,
                                              std::make_shared<Fixed<MatMulProblem>>(
                                                  MatMulProblem{}, with_last_two_swapped(result), DType::f32),
                                              {weights, turned}, with_last_two_swapped(result)));
    // A shape under which alone the result is read is what the move back writes.
    const int reader = only_reader(op.output);
    const bool seen = reader != none && dynamic_cast<const Reshape*>(operation(reader).module.get()) != nullptr;
    Operation& last = seen ? operation(reader) : op;
    Operation back = last;
    back.module = std::make_shared<Fixed<MoveProblem>>(swap_of(result), shape(last.output), DType::f32);
    back.inputs = {found}, back.view = false;
    replace(last, std::move(back));
  }

  bool is_floats(int value) const { return program_.value(value).format.dtype == DType::f32 && !is_coded(value); }

  /// The move that writes a tensor of that shape, of one with the last two dimensions swapped.
  static MoveProblem swap_of(const Shape& to) {
    const std::int64_t rows = to[-2], columns = to[-1];
    return {
        .axes = {{to.numel() / std::max<std::int64_t>(rows * columns, 1), rows * columns}, {rows, 1}, {columns, rows}}};
  }
  Operation swapped(const std::string& name, int value) {
    const Shape to = with_last_two_swapped(shape(value));
    return move_from(name, value, swap_of(to), to);
  }

  /// Of rows, by what one value after the other alone is computed of.
  bool is_softmax_of_product(int value) {
    bool softmax = false;
    for (int steps = 0; steps < most_steps; ++steps) {
      const Operation* const op = only_for(value);
      if (op == nullptr || op->inputs.empty()) return false;
      if (softmax && problem_of<MatMulProblem>(*op)) return true;
      const auto rows = softmax ? std::nullopt : problem_of<SoftmaxProblem>(*op);
      if (!op->view && !rows && !problem_of<PointwiseProblem>(*op)) return false;
      if (rows && (rows->kind != SoftmaxKind::softmax || rows->dim + 1 != static_cast<int>(shape(value).rank())))
        return false;
      softmax |= rows.has_value();
      value = op->inputs[0];
    }
    return false;
  }
};

class TurnedOperands : Dataflow {
 public:
  using Dataflow::Dataflow;

  void take() {
    for (Operation& op : program_.operations) {
      for (std::size_t i = 0; i < 2; ++i) take(op, i);
    }
    finish();
  }

 private:
  void take(Operation& op, std::size_t i) {
    const auto product = solves<MatMulProblem>(&op);
    const Operation* const turn = product ? only_for(op.inputs[i]) : nullptr;
    if (turn == nullptr || program_.value(op.output).format.dtype != DType::f32 || !swaps_last_two(*this, *turn))
      return;
    MatMulProblem problem = *product;
    bool& flag = i == 0 ? problem.transpose_a : problem.transpose_b;
    flag = !flag;
    std::vector<int> inputs = op.inputs;
    inputs[i] = turn->inputs[0];
    join(op, std::move(inputs), problem, {});
  }
};

}  // namespace

void take_turns(Program& program, const CompileOptions& options) { TurnedOperands(program, options).take(); }

void turn_products(Program& program, const CompileOptions& options) { TurnedProducts(program, options).turn(); }

}  // namespace lamina::detail
