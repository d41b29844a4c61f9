// Moves in place: what a move writes is read where it came from, or what it reads is written where it goes to, if the
// kernels on the other side can step so. The move is no step then.

#include <algorithm>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/rules/move/strides.h"

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
    for (Operation& op : program_.operations) {
      const auto problem = op.view ? std::nullopt : problem_of<MoveProblem>(op);
      if (problem) op.view = slice(op, *problem) || read_in_place(op, *problem) || write_in_place(op, *problem);
    }
  }

 private:
  /// Neighbouring channels are a slice of the image that they are taken from.
  bool slice(const Operation& move, const MoveProblem& problem) {
    const int from = move.inputs[0];
    const Program::Value& source = program_.value(from);
    const PreparedViews views(program_, move, options_);
    const auto first = source.strides.rank() > 0 ? std::nullopt : first_channel_taken(problem, views.preparation);
    if (!first) return false;
    const int whole = source.whole == none ? from : source.whole;
    return place(move.output, {.whole = whole, .first_channel = source.first_channel + *first}, readers(move.output));
  }

  /// Whoever reads what the move writes reads what it reads.
  bool read_in_place(const Operation& move, const MoveProblem& problem) {
    const Program::Value& source = program_.value(move.inputs[0]);
    const PreparedViews views(program_, move, options_);
    const auto placement = source.whole == none ? placed_in_input(problem, views.preparation) : std::nullopt;
    // As a tensor it begins at its first element and has as many bytes as if it had no gaps.
    if (!placement || placement->first + program_.value(move.output).shape.numel() > source.shape.numel()) return false;
    return place(move.output, {move.inputs[0], 0, placement->strides, placement->first}, readers(move.output));
  }

  /// Whoever writes what the move reads writes what it writes.
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

  /// Puts a value where it lies in another, if all `users` can step so. One without dimensions has no strides, and so
  /// would be taken for a slice.
  bool place(int value, const Place& at, const std::multiset<int>& users) {
    if (fixed_[index(value)] || users.empty() || shape(value).rank() == 0) return false;
    Program::Value& v = program_.value(value);
    const auto put = [&](const Place& to) {
      v.whole = to.whole, v.first_channel = to.first_channel, v.strides = to.strides, v.first = to.first;
    };
    put(at);
    const auto runs = [&](int user) {
      const Operation& op = operation(user);
      return !op.view && runs_in_place(program_, op, options_);
    };
    if (std::ranges::all_of(users, runs)) {
      fixed_[index(value)] = fixed_[index(at.whole)] = true;
      return true;
    }
    put({});
    return false;
  }

  std::vector<bool> fixed_;  // by value: it stays where it is
};

}  // namespace

void stride_in_place(Program& program, const CompileOptions& options) { Strider(program, options).stride(); }

}  // namespace lamina::detail
