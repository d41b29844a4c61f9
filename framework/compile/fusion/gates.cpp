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
        if (!join_product(op, 0)) join_product(op, 1);
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

  /// What a convolution of one pixel solves, of codes or not.
  std::optional<ConvProblem> of_a_pixel(const Operation* op, bool codes) const {
    const auto problem = op == nullptr ? std::nullopt : codes ? of_codes(*op) : convolution(*op, 1);
    if (!problem) return std::nullopt;
    const ConvGeometry& g = problem->geometry;
    const bool one = g.in_pixels() == 1 && g.out_pixels() == 1 && g.kernel_height == 1 && g.kernel_width == 1;
    return one ? problem : std::nullopt;
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
    const bool codes = is_coded(image);
    const auto stored = [&](int value) { return program_.value(value).quantization; };
    const auto alone_for = [&](int value) {
      const bool alike = program_.value(value).format.dtype == program_.value(image).format.dtype;
      return alike && is_coded(value) == codes ? only_computes(value) : nullptr;
    };
    Operation* const second = alone_for(factors);
    const auto excite = of_a_pixel(second, codes);
    Operation* const first = excite ? alone_for(second->inputs[0]) : nullptr;
    const auto squeeze = of_a_pixel(first, codes);
    Operation* const mean = squeeze ? alone_for(first->inputs[0]) : nullptr;
    if (!is_mean(mean) || mean->inputs[0] != image) return std::nullopt;
    SqueezeExciteProblem problem = {*squeeze, *excite};
    problem.means = stored(first->inputs[0]), problem.between = stored(second->inputs[0]);
    problem.factors = stored(factors);
    return Gate{mean, first, second, std::move(problem)};
  }

  bool join_product(Operation& op, std::size_t factors) {
    const int image = op.inputs[1 - factors];
    const auto gate = gate_of(image, op.inputs[factors]);
    return gate && shape(image) == shape(op.output) &&
           join(op, {image}, gate->problem, {gate->mean, gate->first, gate->second});
  }

  void join_factors(const Operation& conv) {
    auto gate = gate_of(conv.inputs[0], conv.inputs[1]);
    if (!gate) return;
    gate->problem.multiplies = false;
    join(*gate->second, {conv.inputs[0]}, gate->problem, {gate->mean, gate->first});
  }
};

}  // namespace

void find_gates(Program& program, const CompileOptions& options) { Gates(program, options).find(); }

}  // namespace lamina::detail
