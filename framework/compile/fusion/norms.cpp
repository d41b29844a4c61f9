// Norms that exporters write as steps: a number is computed of each row, and the row's elements are multiplied or
// divided by it. They become one operation. x / (mean(x) + eps)           the response norm of ConvNeXt V2 (Woo et al.,
// 2023) x / sqrt(mean(x x) + eps)     an RMS norm d / sqrt(mean(d d) + eps)     a layer norm, d = x - mean(x) x /
// max(l2(x), eps)           directions, as of the queries and keys of XCiT

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/layers/absorption.h"
#include "lamina/layers/fixed.h"

namespace lamina::detail {
namespace {

class NormsOfSteps : Dataflow {
 public:
  using Dataflow::Dataflow;

  void find() {
    for (Operation& op : program_.operations) {
      const PointwiseStep* const step = op.module == nullptr || op.inputs.size() != 2 ? nullptr : step_of(op);
      if (step == nullptr || step->operand != 1) continue;
      const Pointwise function = step->function;  // copied: take() removes the module that `step` points into
      if (function == Pointwise::div) take(op, 0, true);
      if (function == Pointwise::mul && !take(op, 0, false)) take(op, 1, false);
    }
    finish();
  }

 private:
  /// The step of an elementwise operation, if it has only one.
  static const PointwiseStep* step_of(const Operation& op) {
    const PointwiseChain* const chain = op.view ? nullptr : chain_of(*op.module);
    return chain != nullptr && chain->size() == 1 ? chain->data() : nullptr;
  }
  /// The operation that computes a value for one reader by that function, if it does; if `of_number`, the function's
  /// second argument must be a number.
  Operation* step_for(int value, Pointwise function, bool of_number = false) {
    Operation* const op = only_for(value);
    const PointwiseStep* const step = op == nullptr ? nullptr : step_of(*op);
    return step != nullptr && step->function == function && (!of_number || step->operand < 0) ? op : nullptr;
  }
  /// The operation that computes a value for one reader as a reduction of rows that lie one after the other, and the
  /// length of the rows.
  std::pair<Operation*, std::int64_t> reduced_rows(int value, Reduction kind) {
    Operation* const op = only_for(value);
    const auto reduce = solved_by<ReduceProblem>(op);
    if (!reduce || reduce->kind != kind) return {};
    std::vector<std::int64_t> row;  // the shape of the result: 1 for each reduced dimension
    std::int64_t length = 1;
    for (const std::int64_t extent : shape(op->inputs[0]).extents()) {
      const bool reduced = (reduce->dims >> row.size() & 1) != 0;
      if (length > 1 && !reduced && extent > 1) return {};
      if (reduced) length *= extent;
      row.push_back(reduced ? 1 : extent);
    }
    if (length == 1 || shape(value) != Shape(row)) return {};
    return {op, length};
  }

  /// The value of which this one is the difference from the means of its rows; else none. Both may have other readers.
  int centred(int value, std::int64_t length) {
    const Operation* const less = computes(value);
    const PointwiseStep* const step = less == nullptr ? nullptr : step_of(*less);
    if (step == nullptr || step->function != Pointwise::sub || step->operand != 1) return none;
    const auto [mean, of] = reduced_rows(less->inputs[1], Reduction::mean);
    return of == length && mean->inputs[0] == less->inputs[0] ? less->inputs[0] : none;
  }

  /// Makes a norm of an operation that divides input `place` by its other input, or multiplies by it, if that is
  /// computed of input `place` as above.
  bool take(Operation& op, std::size_t place, bool divided) {
    int x = op.inputs[place], value = op.inputs[1 - place];
    std::vector<Operation*> parts;
    const auto behind = [&](Operation* part) {
      if (part != nullptr) parts.push_back(part), value = part->inputs[0];
      return part != nullptr;
    };
    bool root = false;
    if (!divided) {
      root = behind(step_for(value, Pointwise::rsqrt));
      if (!root && !behind(step_for(value, Pointwise::reciprocal))) return false;
    }
    const bool floored = !root && behind(step_for(value, Pointwise::max, true));
    root = root || (!floored && behind(step_for(value, Pointwise::sqrt)));
    if (!floored && !behind(step_for(value, Pointwise::add, true))) return false;
    const double eps = step_of(*parts.back())->a;
    const auto [reduction, length] = reduced_rows(value, floored ? Reduction::l2 : Reduction::mean);
    if (!behind(reduction)) return false;
    NormProblem problem = {.length = length, .eps = eps, .kind = NormKind::mean, .channels = length};
    if (floored) problem.kind = NormKind::length;
    if (root) {
      Operation* const square = step_for(value, Pointwise::mul);
      if (!behind(square) || square->inputs.back() != value || step_of(*square)->operand < 0) return false;
      problem.kind = NormKind::root_mean_square;
      const int all = value == x ? centred(x, length) : none;
      if (all != none) problem.kind = NormKind::centred, x = value = all;
    }
    return value == x && shape(x) == shape(op.output) && join(op, {x}, problem, parts);
  }
};

}  // namespace

void find_norms(Program& program, const CompileOptions& options) { NormsOfSteps(program, options).find(); }

}  // namespace lamina::detail
