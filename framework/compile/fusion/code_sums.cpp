// Sums of a convolution's codes and others: the convolution's kernel rounds its sums to its own codes, adds what those
// stand for to the others, and rounds again. The bits are those of the two operations.

#include "lamina/compile/dataflow.h"

namespace lamina::detail {
namespace {

class CodeSums : Dataflow {
 public:
  using Dataflow::Dataflow;

  void join_all() {
    for (Operation& op : program_.operations) join_one(op);
    finish();
  }

 private:
  /// With the later of the convolutions that compute its operands: the earlier ones are done by then.
  void join_one(Operation& op) {
    const auto sum = op.module == nullptr || op.inputs.size() != 2 ? std::nullopt : problem_of<PointwiseProblem>(op);
    if (!sum || sum->compute != DType::f32 || !is_coded(op.output)) return;
    const int later = producer(op.inputs[0]) > producer(op.inputs[1]) ? 0 : 1;
    for (const int place : {later, 1 - later}) {
      const int value = op.inputs[index(place)], other = op.inputs[index(1 - place)];
      const bool one = is_coded(value) && readers(value).size() == 1 && producer(value) != none;
      Operation* const conv = one ? &operation(producer(value)) : nullptr;
      auto problem = one && conv->inputs.size() == 1 ? problem_of<ConvProblem>(*conv) : std::nullopt;
      if (!problem || !problem->eight.defined() || !problem->epilogue.chain.empty() || problem->epilogue.pool) continue;
      problem->epilogue.chain = sum->chain;
      problem->eight.addend = program_.value(value).quantization;
      problem->eight.addend_type = program_.value(value).format.dtype;
      if (join(op, {conv->inputs[0], other}, *std::move(problem), {conv})) return;
    }
  }
};

}  // namespace

void sum_codes(Program& program, const CompileOptions& options) { CodeSums(program, options).join_all(); }

}  // namespace lamina::detail
