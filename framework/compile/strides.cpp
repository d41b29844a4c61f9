// Moves in place: the readers of a move's result read the move's operand instead, with strides, or the operand is
// written with strides straight into the result, if the kernels there can take such strides. Then the move is no step
// any more. Neither is a concatenation all of whose parts are written straight into its result.

#include <algorithm>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/rules/move/strides.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina::detail {
namespace {

class Strider : Dataflow {
 public:
  Strider(Program& program, const CompileOptions& options)
      : Dataflow(program, options), fixed_(program.values.size(), false) {
    for (const int output : program_.outputs) fixed_[index(output)] = true;
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Program::Value& value = program_.values[v];
      if (value.constant.defined() || value.whole != none) fixed_[v] = true;
      if (value.whole != none) fixed_[index(value.whole)] = true;
    }
  }

  void stride() {
    for (auto op = program_.operations.rbegin(); op != program_.operations.rend(); ++op) {  // larger results first
      const auto problem = solved_by<ConcatProblem>(&*op);
      if (problem) op->view = join(*op, problem->dim);
    }
    for (Operation& op : program_.operations) {
      const auto problem = solved_by<MoveProblem>(&op);
      if (problem) op.view = read_in_place(op, *problem) || write_in_place(op, *problem);
    }
  }

 private:
  /// Lets each part of a concatenation be written straight into the result: all parts, or none.
  bool join(const Operation& concat, int dim) {
    const Program::Value result = program_.value(concat.output);
    if (result.whole != none && result.strides.rank() == 0) return false;
    View view = this->view(concat.output);
    view.strides = result.strides;
    const Strides strides = strides_of(view);
    const int whole = result.whole == none ? concat.output : result.whole;
    const bool fixed = fixed_[index(whole)];
    std::vector<int> placed;
    std::int64_t first = result.first;
    for (const int part : concat.inputs) {
      const int value = place_part(part, whole, strides, first);
      if (value == none) {
        for (const int other : placed) put(other, {}), fixed_[index(other)] = false;
        fixed_[index(whole)] = fixed;
        return false;
      }
      placed.push_back(value);
      first += shape(part)[dim] * strides[index(dim)];
    }
    return true;
  }

  /// Returns the value that lies in the whole now: the part, or the value that the part is a view of.
  int place_part(int part, int whole, const Strides& strides, std::int64_t first) {
    if (program_.value(part).format != program_.value(whole).format || shape(part).numel() == 0) return none;
    std::vector<MoveProblem::Axis> axes;
    for (const int d : memory_order(view(part))) {
      axes.push_back({.extent = shape(part)[d], .stride = strides[index(d)]});
    }
    int value = part;
    while (readers(value).size() == 1 && computes(value) != nullptr && computes(value)->view) {
      value = computes(value)->inputs[0];
    }
    // A part that is only converted stays where it is: the Map that reads the whole will read it there.
    if (computes(value) == nullptr || readers(value).size() != 1 || problem_of<ConversionProblem>(*computes(value)))
      return none;
    const auto along = strides_along(std::move(axes), view(value));
    return along && place(value, {whole, 0, *along, first}, {producer(value)}) ? value : none;
  }

  /// Lets the readers of the move's result read the move's operand with strides.
  bool read_in_place(const Operation& move, const MoveProblem& problem) {
    const Program::Value& source = program_.value(move.inputs[0]);
    const PreparedViews views(program_, move, options_);
    const auto placement = source.whole == none ? placed_in_input(problem, views.preparation) : std::nullopt;
    // A Tensor of the view begins at its first element and has as many bytes as without gaps.
    if (!placement || placement->first + program_.value(move.output).shape.numel() > source.shape.numel()) return false;
    return place(move.output, {move.inputs[0], 0, placement->strides, placement->first}, readers(move.output));
  }

  /// Lets the operation that computes the move's operand write the move's result, with strides.
  bool write_in_place(const Operation& move, const MoveProblem& problem) {
    const int from = move.inputs[0], to = move.output;
    if (fixed_[index(to)] || only_for(from) == nullptr) return false;
    const PreparedViews views(program_, move, options_);
    const auto placement = placed_in_output(problem, views.preparation);
    return placement && place(from, {to, 0, placement->strides, placement->first}, {producer(from)});
  }

  /// Where a value lies, as Program::Value says it.
  struct Place {
    int whole = none;
    std::int64_t first_channel = 0;
    Shape strides = {};
    std::int64_t first = 0;
  };

  /// Puts a value at a place in another, if all `users` can work on it there. A value without dimensions stays out: it
  /// has no strides, so it would be taken for a slice.
  bool place(int value, const Place& at, const std::multiset<int>& users) {
    if (fixed_[index(value)] || users.empty() || shape(value).rank() == 0) return false;
    put(value, at);
    const auto pays = [&](int user) {
      const Operation& op = operation(user);
      return !op.view && pays_in_place(program_, op, options_);
    };
    if (std::ranges::all_of(users, pays)) {
      fixed_[index(value)] = fixed_[index(at.whole)] = true;
      return true;
    }
    put(value, {});
    return false;
  }

  void put(int value, const Place& at) {
    Program::Value& v = program_.value(value);
    v.whole = at.whole, v.first_channel = at.first_channel, v.strides = at.strides, v.first = at.first;
  }

  std::vector<bool> fixed_;  // by value: its place may not change any more
};

}  // namespace

void stride_in_place(Program& program, const CompileOptions& options) { Strider(program, options).stride(); }

}  // namespace lamina::detail
