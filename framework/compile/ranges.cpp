// Values that f16 cannot hold for certain: products of products. Where a product of two values that a run computes is
// multiplied by a third one, as linear attention does it (keys by values, and queries by that), numbers grow with every
// one of them, and no softmax or norm between them has seen to their size. f16 ends at 65,504; of an infinity that
// meets a zero, or another one, nothing but NaN is left. So these products and what is only added, moved or scaled
// behind them are f32, as PyTorch's authors of such networks keep them by hand.

#include <algorithm>
#include <vector>

#include "lamina/compile/dataflow.h"

namespace lamina::detail {
namespace {

class Ranges : Dataflow {
 public:
  Ranges(Program& program, const CompileOptions& options)
      : Dataflow(program, options), factors_(program.values.size(), 0) {}

  void find() {
    for (const Operation& op : program_.operations) {
      int most = 0;
      bool kept = false;
      for (const int input : op.inputs) {
        most = std::max(most, factors_[index(input)]);
        kept = kept || program_.value(input).keeps_f32;
      }
      if (multiplies(op)) {
        factors_[index(op.output)] = most + 1;
        if (most > 0) keep(op.output);
      } else if (passes_on(op)) {
        factors_[index(op.output)] = most;
        if (kept) program_.value(op.output).keeps_f32 = true;
      }
    }
  }

 private:
  /// Whether the operation multiplies two values that a run computes.
  bool multiplies(const Operation& op) const {
    return problem_of<MatMulProblem>(op) &&
           std::ranges::none_of(op.inputs, [&](int input) { return program_.value(input).constant.defined(); });
  }

  /// Whether the operation's results may be as large as its operands, or larger.
  bool passes_on(const Operation& op) const {
    if (op.view || problem_of<MoveProblem>(op) || problem_of<ConcatProblem>(op)) return true;
    const auto functions = problem_of<PointwiseProblem>(op);
    return functions && std::ranges::all_of(functions->chain, [](const PointwiseStep& step) {
             switch (step.function) {
               case Pointwise::identity:
               case Pointwise::add:
               case Pointwise::sub:
               case Pointwise::mul:
               case Pointwise::neg:
               case Pointwise::abs:
               case Pointwise::relu:
               case Pointwise::min:
               case Pointwise::max: return true;
               case Pointwise::div: return step.operand < 0;
               default: return false;
             }
           });
  }

  /// Marks this value, and the values that it is made of, back to the first product.
  void keep(int value) {
    for (std::vector<int> left = {value}; !left.empty();) {
      const int next = left.back();
      left.pop_back();
      if (factors_[index(next)] == 0 || program_.value(next).keeps_f32) continue;
      program_.value(next).keeps_f32 = true;
      const std::vector<int>& inputs = computes(next)->inputs;
      left.insert(left.end(), inputs.begin(), inputs.end());
    }
  }

  std::vector<int> factors_;  // by value: how many such products it has been through
};

}  // namespace

void keep_ranges(Program& program, const CompileOptions& options) {
  if (storage_type(options.precision) == DType::f16) Ranges(program, options).find();
}

}  // namespace lamina::detail
