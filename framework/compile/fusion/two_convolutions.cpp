// Two convolutions that a kernel computes as one: those that are added, as where the shortcut of a residual block is
// one; a depthwise one and what it reads, as the blocks of mobile networks begin; and a wide map with what narrows it
// again, as between the windows of two residual blocks. What lies between them is not written, or at least not read.

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/conv_sum.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::detail {
namespace {

bool is_one_by_one(const ConvGeometry& g) { return g.kernel_height * g.kernel_width == 1; }

Tensor sum_of(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  Tensor result = a.clone();
  std::ranges::transform(a.values<float>(), b.values<float>(), result.values<float>().begin(), std::plus());
  return result;
}

class TwoConvolutions : Dataflow {
 public:
  using Dataflow::Dataflow;

  void all(void (TwoConvolutions::*join_one)(Operation&)) {
    for (Operation& op : program_.operations) (this->*join_one)(op);
    finish();
  }

  /// Joins a convolution whose epilogue begins by adding the result of another one with that other one, if nobody else
  /// reads that result.
  void sum(Operation& op) {
    auto first = convolution(op, 2);
    if (!first || first->epilogue.chain.empty() || !first->epilogue.is_residual() ||
        first->epilogue.chain[0].operand != 1)
      return;
    Operation* const other = only_for(op.inputs[1]);
    auto second = other == nullptr ? std::nullopt : convolution(*other, 1);
    if (!second || !second->epilogue.chain.empty() || first->epilogue.pool || second->epilogue.pool) return;
    Epilogue epilogue = first->epilogue;
    epilogue.chain.erase(epilogue.chain.begin());
    std::vector<int> inputs = {op.inputs[0], other->inputs[0]};
    if (!sees_one_pixel(second->geometry)) std::swap(first, second), std::swap(inputs[0], inputs[1]);
    if (!sees_one_pixel(second->geometry)) return;
    first->epilogue = epilogue;
    first->bias = sum_of(first->bias, second->bias);
    join(op, inputs, ConvSumProblem{*first, second->geometry, second->weight}, {other});
  }

  /// Joins a depthwise convolution with the convolution whose result it reads. If that result is in codes, the pair
  /// rounds to them all the same.
  void pair(Operation& op) {
    if (op.module == nullptr || op.inputs.size() != 1) return;
    const int between = op.inputs[0];
    const auto conv = [&](const Operation& o) { return is_coded(between) ? of_codes(o) : convolution(o, 1); };
    const auto second = conv(op);
    Operation* const before = only_computes(between);
    if (!second || !is_depthwise(second->geometry) || before == nullptr) return;
    const auto first = conv(*before);
    if (!first) return;
    join(op, before->inputs, ConvPairProblem{*first, *second, program_.value(between).quantization}, {before});
  }

  /// Joins a convolution with one of several readers of its result. The kernel stores that result, which would be
  /// needless for a single reader.
  void narrow(Operation& op) {
    if (op.module == nullptr || op.inputs.size() > 2 || op.second_output != none || readers(op.output).size() < 2)
      return;
    auto wide = problem_of<ConvSumProblem>(op);
    if (const auto plain = convolution(op, op.inputs.size()); plain && is_one_by_one(plain->geometry))
      wide = {.first = *plain, .second = {}};
    if (!wide) return;
    for (const int reader : readers(op.output)) {
      Operation* const next = reader == none ? nullptr : &operation(reader);
      const auto narrower = next == nullptr || next->second_output != none ? std::nullopt : convolution(*next, 1);
      if (!narrower || !is_one_by_one(narrower->geometry)) continue;
      if (join(op, op.inputs, BottleneckProblem{*wide, *narrower}, {next}, next->output)) return;
    }
  }
};

}  // namespace

void sum_convolutions(Program& program, const CompileOptions& options) {
  TwoConvolutions(program, options).all(&TwoConvolutions::sum);
}

void pair_convolutions(Program& program, const CompileOptions& options) {
  TwoConvolutions(program, options).all(&TwoConvolutions::pair);
}

void narrow_wide_maps(Program& program, const CompileOptions& options) {
  TwoConvolutions(program, options).all(&TwoConvolutions::narrow);
}

}  // namespace lamina::detail
