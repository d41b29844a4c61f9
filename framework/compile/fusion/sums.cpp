// Sums of two convolutions, such as the blocks of a ResNet in which the shortcut is one: one operation computes both,
// where a kernel does, and the shortcut's map is neither written nor read.

#include <algorithm>
#include <optional>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/conv_sum.h"
#include "lamina/layers/fixed.h"

namespace lamina::detail {
namespace {

class Summer : Dataflow {
 public:
  using Dataflow::Dataflow;

  void sum() {
    for (Operation& op : program_.operations) {
      if (Operation* const other = summand(op)) add(op, *other);
    }
    finish();
  }

 private:
  std::optional<ConvProblem> unpooled(const Operation& op) const {
    auto problem = convolution(op);
    if (problem && problem->epilogue.pool) problem.reset();
    return problem;
  }

  /// The convolution whose result another convolution begins its epilogue with, if nobody else reads it.
  Operation* summand(const Operation& op) {
    const auto problem = op.inputs.size() == 2 ? unpooled(op) : std::nullopt;
    if (!problem || problem->epilogue.chain.empty() || !problem->epilogue.is_residual()) return nullptr;
    if (problem->epilogue.chain[0].operand != 1) return nullptr;
    Operation* const other = only_for(op.inputs[1]);
    const auto plain = other != nullptr && other->inputs.size() == 1 ? unpooled(*other) : std::nullopt;
    return plain && plain->epilogue.chain.empty() ? other : nullptr;
  }

  static bool is_of_pixels(const ConvGeometry& g) {
    return g.groups == 1 && g.kernel_height == 1 && g.kernel_width == 1 && g.padding_height == 0 &&
           g.padding_width == 0;
  }

  static Tensor sum_of(const Tensor& a, const Tensor& b) {
    if (!a.defined() || !b.defined()) return a.defined() ? a : b;
    Tensor result = a.clone();
    std::ranges::transform(a.values<float>(), b.values<float>(), result.values<float>().begin(), std::plus());
    return result;
  }

  void add(Operation& op, Operation& other) {
    ConvProblem a = *convolution(op), b = *convolution(other);
    Epilogue epilogue = a.epilogue;
    epilogue.chain.erase(epilogue.chain.begin());
    Operation longer = op;
    longer.inputs = {op.inputs[0], other.inputs[0]};
    if (!is_of_pixels(b.geometry)) std::swap(a, b), std::swap(longer.inputs[0], longer.inputs[1]);
    if (!is_of_pixels(b.geometry)) return;
    ConvSumProblem problem = {.first = a, .second = b.geometry, .second_weight = b.weight};
    problem.first.epilogue = epilogue;
    problem.first.bias = sum_of(a.bias, b.bias);
    longer.module = std::make_shared<Fixed<ConvSumProblem>>(problem, shape(op.output), DType::f32);
    join(op, std::move(longer), {&other});
  }
};

}  // namespace

void sum_convolutions(Program& program, const CompileOptions& options) { Summer(program, options).sum(); }

}  // namespace lamina::detail
