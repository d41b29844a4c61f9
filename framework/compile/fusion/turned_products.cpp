// Products of what is turned.
//
// Attention whose channels come first, as in YOLO and SHViT, is v' p', where p is the softmax of a product. It is
// written as (p v)', since only p v is found to be attention (attention.cpp). v and the result are then moved, which
// mostly means that images are read and written channels last. An operand of any other product that a move transposes
// for it alone is transposed by the product as it reads.
//
// Layers over tokens, as an MLP-Mixer's: to turn rows, multiply each by known weights and turn them back is to multiply
// the images that the rows are, channels first, by the same weights.

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/rules/move/compose.h"
#include "lamina/layers/absorption.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/views.h"

namespace lamina::detail {
namespace {

constexpr int most_steps = 8;  // between a softmax and its product

/// Whether an operation is a move that swaps the last two dimensions.
bool swaps_last_two(const Dataflow& flow, const Program::Operation& op) {
  const auto move = flow.solved_by<MoveProblem>(&op);
  if (!move) return false;
  const View from = {.shape = flow.shape(op.inputs[0])}, to = {.shape = with_last_two_swapped(flow.shape(op.output))};
  const auto back = with_last_two_swapped(*move, flow.shape(op.output));
  return back && from.shape == to.shape && is_still(*back, {.inputs = {&from, 1}, .outputs = {&to, 1}, .device = {}});
}

/// The move that writes a tensor of that shape from one with the last two dimensions swapped.
MoveProblem swap_of(const Shape& to) {
  const std::int64_t rows = to[-2], columns = to[-1];
  return {
      .axes = {{to.numel() / std::max<std::int64_t>(rows * columns, 1), rows * columns}, {rows, 1}, {columns, rows}}};
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
    const auto product = solved_by<MatMulProblem>(&op);
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
    // If the result's only reader is a change of shape, the move back writes the changed shape at once.
    const int reader = only_reader(op.output);
    const bool seen = reader != none && dynamic_cast<const Reshape*>(operation(reader).module.get()) != nullptr;
    Operation& last = seen ? operation(reader) : op;
    Operation back = last;
    back.module = std::make_shared<Fixed<MoveProblem>>(swap_of(result), shape(last.output), DType::f32);
    back.inputs = {found}, back.view = false;
    replace(last, std::move(back));
  }

  bool is_floats(int value) const { return program_.value(value).format.dtype == DType::f32 && !is_coded(value); }

  Operation swapped(const std::string& name, int value) {
    const Shape to = with_last_two_swapped(shape(value));
    return move_from(name, value, swap_of(to), to);
  }

  /// Whether a value is the softmax of a product along rows, with only elementwise functions and views between, each of
  /// which has one reader.
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
    const auto product = solved_by<MatMulProblem>(&op);
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

class TokenLayers : Dataflow {
 public:
  using Dataflow::Dataflow;

  void turn() {
    for (Operation& op : program_.operations) turn(op);
    finish();
  }

 private:
  void turn(Operation& op) {
    const auto linear = solved_by<LinearProblem>(&op);
    if (!linear || op.inputs.size() != 1 || linear->eight.defined() || is_coded(op.output)) return;
    const Operation* const before = is_coded(op.inputs[0]) ? nullptr : computes(op.inputs[0]);
    if (before == nullptr || !swaps_last_two(*this, *before) || extent(op.inputs[0], -1) != linear->in) return;
    const Shape rows = with_last_two_swapped(shape(op.output));  // [..., tokens, channels]
    if (rows.numel() > std::numeric_limits<int>::max()) return;
    const auto channels = static_cast<int>(rows[-1]);
    const std::int64_t images = rows.numel() / std::max<std::int64_t>(rows[-1] * rows[-2], 1);
    const Shape from = {images, linear->in, 1, channels}, to = {images, linear->out, 1, channels};
    const ConvProblem conv = {.geometry = {.batch = images,
                                           .in_channels = linear->in,
                                           .in_height = 1,
                                           .in_width = channels,
                                           .out_channels = linear->out,
                                           .out_height = 1,
                                           .out_width = channels,
                                           .kernel_height = 1,
                                           .kernel_width = 1},
                              .weight = linear->weight.view({linear->out, linear->in, 1, 1}),
                              .bias = linear->bias,
                              .epilogue = linear->epilogue};
    const int image = new_value(program_.value(before->inputs[0]).name, from);
    Operation product = op;
    take_names(product, *before);
    product.inputs = {image}, product.output = new_value(op.name, to);
    if (!become(product, conv)) return;
    Operation& last = with_functions(op, product, conv);
    const std::vector<int> all(readers(last.output).begin(), readers(last.output).end());
    const auto turns_back = [&](int reader) { return reader != none && swaps_last_two(*this, operation(reader)); };
    if (only_for(op.inputs[0]) == nullptr && !std::ranges::all_of(all, turns_back)) return;  // would add a turn
    const auto goes_on = [&](int reader) {
      return turns_back(reader) || (reader != none && solved_by<LinearProblem>(&operation(reader)));
    };
    const bool is_wider = rows.numel() > shape(before->inputs[0]).numel();
    if (is_wider && std::ranges::none_of(all, goes_on)) return;  // the turn behind would be the larger one
    insert(op, under(before->inputs[0], image));
    const int rows_of = insert(op, std::move(product)), found = insert(op, under(rows_of, new_value(op.name, rows)));
    // Moves that turn the result back become views; other readers get the result turned.
    const Shape turned = shape(last.output);
    last.name += " (turned)", last.fused.clear();
    replace(last, std::make_shared<Fixed<MoveProblem>>(swap_of(turned), turned, DType::f32), {found}, turned);
    for (const int reader : all) {
      if (!turns_back(reader)) continue;
      Operation& back = operation(reader);
      replace(back, std::make_shared<Reshape>(shape(back.output)), {found}, shape(back.output));
    }
  }

  /// Makes an operation that convolution; does nothing and returns false if no kernel takes it and pays.
  bool become(Operation& op, const ConvProblem& conv) {
    Operation other = op;
    other.module = std::make_shared<Fixed<ConvProblem>>(conv, shape(op.output), DType::f32), other.answers = {};
    if (!has_paying_kernel(other)) return false;
    op = std::move(other);
    return true;
  }

  /// Lets `product` take in the elementwise functions that follow `op`. Returns the last of them. They have not been
  /// folded yet, because the kernels for layers over rows of odd lengths take no functions in.
  Operation& with_functions(Operation& op, Operation& product, ConvProblem conv) {
    Operation* last = &op;
    for (int next = only_reader(op.output); next != none; next = only_reader(last->output)) {
      Operation& function = operation(next);
      if (function.view || function.inputs.size() != 1 || is_coded(function.output)) break;
      const Module::Operand own;
      if (!append(conv.epilogue.chain, *function.module, {&own, 1}) || !become(product, conv)) break;
      take_names(product, function);
      last = &function;
    }
    return *last;
  }

  /// A view of `value` as the value `as`, in that one's shape.
  Operation under(int value, int as) {
    Operation view = operation_of(program_.value(as).name, std::make_shared<Reshape>(shape(as)), {value}, shape(as));
    view.output = as, view.view = true;
    return view;
  }
};

}  // namespace

void turn_token_layers(Program& program, const CompileOptions& options) {
  if (options.device.is_cuda() && size_of(storage_type(options.precision)) == 2) TokenLayers(program, options).turn();
}

void take_turns(Program& program, const CompileOptions& options) { TurnedOperands(program, options).take(); }

void turn_products(Program& program, const CompileOptions& options) { TurnedProducts(program, options).turn(); }

}  // namespace lamina::detail
