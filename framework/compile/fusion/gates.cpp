// Squeeze and excitation: the means of an image's channels, two layers of them, and the image times what comes, become
// one operation where a kernel does all of it. Where a convolution multiplies the image as it reads it, the operation
// gives the factors alone.

#include <algorithm>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/squeeze_excite.h"
#include "lamina/layers/fixed.h"

namespace lamina::detail {
namespace {

class Gates : Dataflow {
 public:
  using Dataflow::Dataflow;

  void find() {
    for (Operation& op : program_.operations) {
      if (multiplies(op)) {
        for (const std::size_t factors : {std::size_t{0}, std::size_t{1}}) {
          if (join_product(op, op.inputs[1 - factors], op.inputs[factors])) break;
        }
      } else if (scales(op)) {
        join_factors(op);
      }
    }
    finish();
  }

 private:
  bool multiplies(const Operation& op) const {
    const auto product = op.view || op.inputs.size() != 2 ? std::nullopt : problem_of<PointwiseProblem>(op);
    return product && product->chain == PointwiseChain{{.function = Pointwise::mul, .operand = 1}};
  }

  bool scales(const Operation& op) const {
    const auto conv = op.view ? std::nullopt : problem_of<ConvProblem>(op);
    return conv && conv->scaled;
  }

  /// What a convolution of one pixel solves.
  std::optional<ConvProblem> of_a_pixel(const Operation* op) const {
    const auto problem = op == nullptr || op->inputs.size() != 1 ? std::nullopt : convolution(*op);
    if (!problem) return std::nullopt;
    const ConvGeometry& g = problem->geometry;
    return g.in_pixels() == 1 && g.out_pixels() == 1 && g.kernel_height == 1 && g.kernel_width == 1 ? problem
                                                                                                    : std::nullopt;
  }

  bool is_mean(const Operation* op) const {
    const auto pool = op == nullptr || op->view ? std::nullopt : problem_of<PoolProblem>(*op);
    return pool && pool->kind == PoolKind::adaptive && pool->geometry.out_pixels() == 1;
  }

  /// What makes a value of the means of an image.
  struct Gate {
    Operation *mean, *first, *second;
    SqueezeExciteProblem problem;
  };

  std::optional<Gate> gate_of(int image, int factors) {
    Operation* const second = only_for(factors);
    const auto excite = of_a_pixel(second);
    Operation* const first = excite ? only_for(second->inputs[0]) : nullptr;
    const auto squeeze = of_a_pixel(first);
    Operation* const mean = squeeze ? only_for(first->inputs[0]) : nullptr;
    if (!is_mean(mean) || mean->inputs[0] != image) return std::nullopt;
    return Gate{mean, first, second, {*squeeze, *excite}};
  }

  /// Whether an operation that replaces `op` does what these three did before it.
  bool replace(Operation& op, Operation by, const Gate& gate, const Shape& result) {
    by.inputs = {gate.mean->inputs[0]};
    by.module = std::make_shared<Fixed<SqueezeExciteProblem>>(gate.problem, result, DType::f32);
    if (gate.second == &op) return join(op, std::move(by), {gate.mean, gate.first});
    return join(op, std::move(by), {gate.mean, gate.first, gate.second});
  }

  bool join_product(Operation& op, int image, int factors) {
    const auto gate = gate_of(image, factors);
    return gate && shape(image) == shape(op.output) && replace(op, op, *gate, shape(op.output));
  }

  void join_factors(const Operation& conv) {
    auto gate = gate_of(conv.inputs[0], conv.inputs[1]);
    if (!gate) return;
    gate->problem.multiplies = false;
    Operation& second = *gate->second;
    replace(second, second, *gate, shape(second.output));
  }
};

}  // namespace

void find_gates(Program& program, const CompileOptions& options) { Gates(program, options).find(); }

}  // namespace lamina::detail
