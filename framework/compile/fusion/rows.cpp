// Rows that nobody reads are not computed. A classifier, for one, takes only the class token of a transformer's last
// block. Where a move takes some rows of values that are computed row by row, it is brought forward, in front of those
// operations.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/rules/move/compose.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/views.h"

namespace lamina::detail {
namespace {

std::int64_t rows_of(const Shape& shape) { return shape[-1] == 0 ? 0 : shape.numel() / shape[-1]; }

Shape with_length(Shape rows, std::int64_t length) {
  rows.set(-1, length);
  return rows;
}

class Rows : Dataflow {
 public:
  Rows(Program& program, const CompileOptions& options)
      : Dataflow(program, options), changed_(program.operations.size(), false) {}

  /// Brings moves forward. Whether there were any: then the program has changed.
  bool narrow() {
    bool any = false;
    for (int i = static_cast<int>(program_.operations.size()); i-- > 0;) any = narrow(i) || any;
    finish();
    return any;
  }

 private:
  bool is_f32(int value) const { return program_.value(value).format.dtype == DType::f32; }

  /// Whether each row of the result depends only on the same row of the operands, and on values that are the same for
  /// all rows.
  bool is_rowwise(const Operation& op) const {
    const Shape &from = shape(op.inputs[0]), &to = shape(op.output);
    if (from.rank() < 2 || to.rank() < 2 || rows_of(from) != rows_of(to)) return false;
    if (!is_f32(op.output) || !std::ranges::all_of(op.inputs, [&](int input) { return is_f32(input); })) return false;
    if (op.view) return from[-1] == to[-1];
    if (const auto norm = problem_of<NormProblem>(op)) {
      return norm->length == to[-1] && norm->inner == 1 && norm->channels == norm->length;
    }
    const bool known = std::all_of(op.inputs.begin() + 1, op.inputs.end(), [&](int input) {
      const Tensor& constant = program_.value(input).constant;
      if (!constant.defined()) return shape(input) == to;
      return constant.numel() == 1 || (constant.numel() == to[-1] && extent(input, -1) == to[-1]);
    });
    if (dynamic_cast<const Linear*>(op.module.get()) != nullptr) return known && from == with_length(to, from[-1]);
    return dynamic_cast<const Elementwise*>(op.module.get()) != nullptr && known && from == to;
  }

  /// The operations before `end` whose results only the move at `end` reads, or other such operations; the last one
  /// first. An empty list if one of them has been changed already.
  std::vector<int> read_by(int end) const {
    std::set<int> narrow = {end};
    std::set<int, std::greater<>> coming;  // operations that compute what these read; the largest number first, so that
                                           // all readers are looked at before
    std::vector<int> found;
    const auto add_producers = [&](int i) {
      for (const int input : operation(i).inputs) {
        if (producer(input) != none) coming.insert(producer(input));
      }
    };
    add_producers(end);
    while (!coming.empty()) {
      const int i = *coming.begin();
      coming.erase(coming.begin());
      const Operation& op = operation(i);
      const auto reads_some = [&](int reader) { return narrow.contains(reader); };
      if (!std::ranges::all_of(readers(op.output), reads_some)) continue;
      if (changed_[index(i)]) return {};
      if (!is_rowwise(op)) continue;
      narrow.insert(i);
      found.push_back(i);
      add_producers(i);
    }
    return found;
  }

  /// The module that does the same to so many rows as `rows` has.
  std::shared_ptr<const Module> module_for(const Operation& op, const Shape& rows) const {
    if (op.view) return std::make_shared<Reshape>(rows);
    if (const auto norm = problem_of<NormProblem>(op))
      return std::make_shared<Fixed<NormProblem>>(*norm, rows, DType::f32);
    return op.module;
  }

  bool narrow(int end) {
    Operation& move = operation(end);
    if (changed_[index(end)]) return false;
    const auto problem = move_of(&move);
    if (!problem) return false;
    const Shape from = shape(move.inputs[0]), to = shape(move.output);
    if (from.rank() < 2 || to.rank() < 2 || from[-1] != to[-1] || 2 * rows_of(to) > rows_of(from)) return false;
    if (!moves_rows(*problem, to.numel(), to[-1], to[-1])) return false;
    const std::vector<int> found = read_by(end);
    const auto works = [&](int i) { return dynamic_cast<const Linear*>(operation(i).module.get()) != nullptr; };
    if (found.empty() || operation(found[0]).output != move.inputs[0] || std::ranges::none_of(found, works))
      return false;

    std::vector<Shape> before;
    for (const int i : found) {
      Shape& rows = program_.value(operation(i).output).shape;
      before.push_back(rows);
      rows = with_length(to, rows[-1]);
    }
    std::map<int, int> taken;  // by value: the value with some of its rows
    std::map<int, int> first;  // by value: the first operation that reads the taken rows
    std::vector<Operation> moves, narrower;
    bool all_run = true;
    const std::set<int> narrowed(found.begin(), found.end());
    for (const int i : found) {
      Operation op = operation(i);
      const Shape rows = shape(op.output);
      op.module = module_for(op, rows);
      for (int& input : op.inputs) {
        if (narrowed.contains(producer(input)) || program_.value(input).constant.defined()) continue;
        if (!taken.contains(input)) moves.push_back(take(input, *problem, to, taken));
        input = taken.at(input);
        first[input] = i;  // from the last to the first
      }
      all_run = all_run && (op.view || has_paying_kernel(op));
      narrower.push_back(std::move(op));
    }
    if (!all_run) {
      for (std::size_t i = 0; i < found.size(); ++i) program_.value(operation(found[i]).output).shape = before[i];
      return false;
    }
    std::ranges::sort(moves, {}, [&](const Operation& some) { return first.at(some.output); });
    for (Operation& some : moves) {
      if (const int by = producer(some.inputs[0]); by != none) changed_[index(by)] = true;  // it has another reader
      const int reader = first.at(some.output);
      insert(operation(reader), std::move(some));
    }
    narrower[0].output = move.output;
    take_names(narrower[0], move);
    for (std::size_t i = 0; i < found.size(); ++i) {
      replace(operation(found[i]), std::move(narrower[i]));
      changed_[index(found[i])] = true;
    }
    drop(move);
    return true;
  }

  /// The move that takes some rows of a value or, if a move wrote that, of what it was moved from.
  Operation take(int value, const MoveProblem& problem, const Shape& to, std::map<int, int>& taken) {
    const std::int64_t length = shape(value)[-1];
    const Shape rows = with_length(to, length);
    int source = value;
    for (const Operation* op = computes(source); op != nullptr && op->view; op = computes(source))
      source = op->inputs[0];
    Operation some = move_from(program_.value(value).name + " (rows)", source,
                               *moves_rows(problem, to.numel(), to[-1], length), rows);
    taken[value] = some.output;
    return some;
  }

  std::vector<bool> changed_;  // by operation: it, or a reader of its result, has changed
};

}  // namespace

void narrow_rows(Program& program, const CompileOptions& options) {
  // An operation that one move was brought past may keep another move from being brought forward, so the pass runs
  // again. Few networks have two such moves.
  constexpr int passes = 4;
  for (int pass = 0; pass < passes && Rows(program, options).narrow(); ++pass) {
  }
}

}  // namespace lamina::detail
