// What is done to a convolution's codes by the convolution itself: its kernel rounds its sums to its own codes, and
// then adds what they stand for to others and rounds again, or looks up what a table has for them. The bits are those
// of the two operations.

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/rules/eight_bits.h"

namespace lamina::detail {
namespace {

class CodeEnds : Dataflow {
 public:
  using Dataflow::Dataflow;

  void join_all() {
    for (Operation& op : program_.operations) join_one(op);
    finish();
  }

 private:
  void join_one(Operation& op) {
    const auto after = op.module == nullptr || op.view ? std::nullopt : problem_of<PointwiseProblem>(op);
    if (!after || after->compute != DType::f32 || !is_coded(op.output)) return;
    if (op.inputs.size() == 1) return look_up(op, *after);
    if (op.inputs.size() != 2) return;
    // With the later of the convolutions that compute its operands: the earlier ones are done by then.
    const int later = producer(op.inputs[0]) > producer(op.inputs[1]) ? 0 : 1;
    for (const int place : {later, 1 - later}) {
      const int other = op.inputs[index(1 - place)];
      auto problem = convolution_of(op.inputs[index(place)]);
      if (!problem) continue;
      problem->epilogue.chain = after->chain;
      Operation& conv = operation(producer(op.inputs[index(place)]));
      if (join(op, {conv.inputs[0], other}, *std::move(problem), {&conv})) return;
    }
  }

  void look_up(Operation& op, const PointwiseProblem& after) {
    auto problem = convolution_of(op.inputs[0]);
    if (!problem) return;
    const View from = view(op.inputs[0]), to = view(op.output);
    const Preparation p = {.inputs = {&from, 1}, .outputs = {&to, 1}, .device = {}};
    if (after.table == nullptr && !is_code_table(after, p)) return;
    problem->eight.table = after.table ? after.table : std::make_shared<const CodeTable>(code_table(after, p));
    Operation& conv = operation(producer(op.inputs[0]));
    join(op, conv.inputs, *std::move(problem), {&conv});
  }

  /// That of a value which nobody else reads, with nothing behind its codes.
  std::optional<ConvProblem> convolution_of(int value) const {
    if (!is_coded(value) || readers(value).size() != 1 || producer(value) == none) return {};
    const Operation& conv = operation(producer(value));
    auto problem = conv.inputs.size() == 1 ? problem_of<ConvProblem>(conv) : std::nullopt;
    if (!problem || !problem->eight.defined() || problem->eight.codes.defined() || !problem->epilogue.chain.empty() ||
        problem->epilogue.pool) {
      return {};
    }
    problem->eight.codes = program_.value(value).quantization;
    problem->eight.codes_type = program_.value(value).format.dtype;
    return problem;
  }
};

}  // namespace

void end_with_codes(Program& program, const CompileOptions& options) { CodeEnds(program, options).join_all(); }

}  // namespace lamina::detail
