// Squeeze and excitation: the means of an image's channels, two layers of them, and the image times what comes, become
// one operation where a kernel does all of it.

#include <algorithm>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/squeeze_excite.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/fixed.h"

namespace lamina::detail {
namespace {

using Operation = Program::Operation;

class Gates : Dataflow {
 public:
  Gates(Program& program, const CompileOptions& options) : Dataflow(program), program_(program), options_(options) {}

  void find() {
    for (Operation& op : program_.operations) {
      if (!multiplies(op)) continue;
      for (const std::size_t factors : {std::size_t{0}, std::size_t{1}}) {
        if (join(op, op.inputs[1 - factors], op.inputs[factors])) break;
      }
    }
    finish();
  }

 private:
  bool multiplies(const Operation& op) const {
    const auto product = op.view || op.inputs.size() != 2 ? std::nullopt : problem_of<PointwiseProblem>(op);
    return product && product->chain == PointwiseChain{{.function = Pointwise::mul, .operand = 1}};
  }

  /// What a convolution of one pixel solves; nothing if the operation is none, or not known yet.
  std::optional<ConvProblem> of_a_pixel(const Operation* op) const {
    const auto* conv = op == nullptr ? nullptr : dynamic_cast<const Conv2d*>(op->module.get());
    if (conv == nullptr || op->view || op->inputs.size() != 1 || !conv->weight().defined()) return std::nullopt;
    if (conv->options().bias && !conv->bias().defined()) return std::nullopt;
    const auto problem = problem_of<ConvProblem>(*op);
    const ConvGeometry& g = problem->geometry;
    return g.in_pixels() == 1 && g.out_pixels() == 1 && g.kernel_height == 1 && g.kernel_width == 1 ? problem
                                                                                                    : std::nullopt;
  }

  bool is_mean(const Operation* op) const {
    const auto pool = op == nullptr || op->view ? std::nullopt : problem_of<PoolProblem>(*op);
    return pool && pool->kind == PoolKind::adaptive && pool->geometry.out_pixels() == 1;
  }

  bool join(Operation& op, int image, int factors) {
    Operation* const second = only_for(factors);
    const auto excite = of_a_pixel(second);
    Operation* const first = excite ? only_for(second->inputs[0]) : nullptr;
    const auto squeeze = of_a_pixel(first);
    Operation* const mean = squeeze ? only_for(first->inputs[0]) : nullptr;
    if (!is_mean(mean) || mean->inputs[0] != image || shape(image) != shape(op.output)) return false;
    Operation longer = op;
    longer.inputs = {image};
    longer.module = std::make_shared<Fixed<SqueezeExciteProblem>>(SqueezeExciteProblem{*squeeze, *excite},
                                                                  shape(op.output), DType::f32);
    if (!runs_in_some_format(program_, longer, options_)) return false;
    for (Operation* part : {mean, first, second}) take_in(longer, *part);
    op = std::move(longer);
    return true;
  }

  Program& program_;
  const CompileOptions& options_;
};

}  // namespace

void find_gates(Program& program, const CompileOptions& options) { Gates(program, options).find(); }

}  // namespace lamina::detail
