// Wide maps that are narrowed again, as between the windows of two residual blocks: one operation computes both maps,
// where a kernel does, and the wide one is not read for it.

#include <optional>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/bottleneck.h"
#include "lamina/layers/fixed.h"

namespace lamina::detail {
namespace {

class Narrower : Dataflow {
 public:
  using Dataflow::Dataflow;

  void narrow() {
    for (Operation& op : program_.operations) {
      // One that nobody else reads need not be stored at all.
      if (op.module == nullptr || readers(op.output).size() < 2) continue;
      const auto wide = widening(op);
      if (!wide) continue;
      for (const int reader : readers(op.output)) {
        if (reader != none && narrow(op, *wide, operation(reader))) break;
      }
    }
    finish();
  }

 private:
  std::optional<ConvProblem> of_pixels(const Operation& op) const {
    auto problem = convolution(op);
    if (problem && problem->geometry.kernel_height * problem->geometry.kernel_width != 1) problem.reset();
    return problem;
  }

  std::optional<ConvSumProblem> widening(const Operation& op) const {
    if (op.inputs.size() > 2 || op.second_output != none) return std::nullopt;
    if (const auto sum = problem_of<ConvSumProblem>(op)) return sum;
    const auto plain = of_pixels(op);
    return plain ? std::optional(ConvSumProblem{.first = *plain, .second = {}}) : std::nullopt;
  }

  bool narrow(Operation& op, const ConvSumProblem& wide, Operation& reader) {
    if (reader.module == nullptr || reader.inputs.size() != 1 || reader.second_output != none) return false;
    const auto narrower = of_pixels(reader);
    if (!narrower) return false;
    Operation both = op;
    both.second_output = reader.output;
    both.module =
        std::make_shared<Fixed<BottleneckProblem>>(BottleneckProblem{wide, *narrower}, shape(op.output), DType::f32);
    return join(op, std::move(both), {&reader});
  }
};

}  // namespace

void narrow_wide_maps(Program& program, const CompileOptions& options) { Narrower(program, options).narrow(); }

}  // namespace lamina::detail
