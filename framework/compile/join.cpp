// Concatenation in place: operands that are joined along the channels are written straight into the joined value.
//
// Concatenations are visited from the last to the first. So a value that is joined twice lands in the larger result;
// and if the operands of a concatenation lie side by side in a larger value already, as in a dense block, its result is
// a slice of that value.

#include <algorithm>

#include "lamina/compile/dataflow.h"

namespace lamina::detail {
namespace {

// At most so many operations may use a value, and so many operands may be joined: the work grows with the product of
// both.
constexpr std::size_t max_users = 256;

class Joiner : Dataflow {
 public:
  Joiner(Program& program, const CompileOptions& options)
      : Dataflow(program, options), fixed_(program.values.size(), false) {
    for (const Operation& op : program_.operations) {
      // A view has no memory but its operand's.
      if (op.view) fixed_[index(op.inputs[0])] = fixed_[index(op.output)] = true;
    }
    // The caller's memory, and constants, are whole.
    for (const auto* ports : {&program_.inputs, &program_.outputs}) {
      for (const int value : *ports) fixed_[index(value)] = true;
    }
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      if (program_.values[v].constant.defined()) fixed_[v] = true;
    }
  }

  void join() {
    for (auto op = program_.operations.rbegin(); op != program_.operations.rend(); ++op) {
      const auto problem = op->view || op->inputs.size() > max_users ? std::nullopt : problem_of<ConcatProblem>(*op);
      if (problem && problem->dim == 1 && shape(op->output).rank() == 4) join(*op);
    }
  }

 private:
  void join(Operation& op) {
    take_operands_place(op);
    const Program::Value& output = program_.value(op.output);
    const int whole = output.whole == none ? op.output : output.whole;
    std::int64_t channel = output.first_channel;
    bool all = true;
    for (const int input : op.inputs) {
      const Program::Value& value = program_.value(input);
      if (value.whole == none) place(input, whole, channel);
      all &= value.whole == whole && value.first_channel == channel;
      channel += value.shape[1];
    }
    op.view = all;
  }

  /// If the operands lie side by side in a larger value, the result is a slice of that.
  void take_operands_place(const Operation& op) {
    const Program::Value first = program_.value(op.inputs[0]);
    if (first.whole == none || program_.value(op.output).whole != none) return;
    std::int64_t channel = first.first_channel;
    for (const int input : op.inputs) {
      const Program::Value& value = program_.value(input);
      if (value.whole != first.whole || value.first_channel != channel) return;
      channel += value.shape[1];
    }
    place(op.output, first.whole, first.first_channel);
  }

  /// Makes a value a slice of the whole if both have one format, and if all operations that write and read it can work
  /// on a slice.
  void place(int value, int whole, std::int64_t channel) {
    Program::Value& v = program_.value(value);
    const std::multiset<int>& users = readers(value);
    if (fixed_[index(value)] || users.size() > max_users || value == whole || v.format != program_.value(whole).format)
      return;
    v.whole = whole;
    v.first_channel = channel;
    const auto pays = [&](int user) { return pays_in_place(program_, operation(user), options_); };
    if (pays(producer(value)) && std::ranges::all_of(users, pays)) return;
    v.whole = none;
    v.first_channel = 0;
  }

  std::vector<bool> fixed_;  // by value: it stays where it is
};

}  // namespace

void join_in_place(Program& program, const CompileOptions& options) { Joiner(program, options).join(); }

}  // namespace lamina::detail
