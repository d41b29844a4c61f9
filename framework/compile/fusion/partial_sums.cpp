// ReXNet's residuals (Han et al., "Rethinking Channel Dimensions for Efficient Model Design", 2021) add a smaller image
// to the first channels of an image, and join the sum with the other channels. That is the sum of all channels and the
// smaller image with channels of zeros behind it, which a convolution can add to its results.

#include <vector>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/rules/move/compose.h"
#include "lamina/layers/elementwise.h"

namespace lamina::detail {
namespace {

class PartialSums : Dataflow {
 public:
  using Dataflow::Dataflow;

  void find() {
    for (Operation& op : program_.operations) find(op);
    finish();
  }

 private:
  void find(Operation& op) {
    const auto joined = solved_by<ConcatProblem>(&op);
    if (!joined || joined->dim != 1 || op.inputs.size() != 2 || shape(op.output).rank() != 4) return;
    const Operation *const sum = only_for(op.inputs[0]), *const rest = only_for(op.inputs[1]);
    const auto added = solved_by<PointwiseProblem>(sum);
    const auto others = move_of(rest);
    if (!others || !added || added->chain != PointwiseChain{{.function = Pointwise::add, .operand = 1}}) return;
    const int whole = rest->inputs[0];
    for (const std::size_t k : {0u, 1u}) {
      const Operation* const slice = only_for(sum->inputs[k]);
      const int smaller = sum->inputs[1 - k];
      const auto first = move_of(slice);
      if (!first || slice->inputs[0] != whole || shape(smaller) != shape(sum->output)) continue;
      const auto both = beside(std::vector{*first, *others}, std::vector{shape(sum->output), shape(rest->output)}, 1);
      const View view = {.shape = shape(whole)};
      const Preparation plain = {.inputs = {&view, 1}, .outputs = {&view, 1}, .device = *options_.description};
      if (!both || shape(whole) != shape(op.output) || !is_still(*both, plain)) continue;
      const int zeros = insert(op, with_zeros(smaller, shape(whole)[1]));
      return replace(op, std::make_shared<Elementwise>(added->chain), {whole, zeros}, shape(whole));
    }
  }
};

}  // namespace

void find_partial_sums(Program& program, const CompileOptions& options) { PartialSums(program, options).find(); }

}  // namespace lamina::detail
