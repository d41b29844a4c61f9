// Depthwise convolutions behind the convolution whose result they read, as the blocks of mobile networks begin: one
// operation computes both, where a kernel does, a few rows at a time.

#include <algorithm>
#include <optional>

#include "lamina/compile/dataflow.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/layers/fixed.h"

namespace lamina::detail {
namespace {

bool is_depthwise(const ConvGeometry& g) { return g.groups == g.in_channels && g.groups == g.out_channels; }

}  // namespace

void pair_convolutions(Program& program, const CompileOptions& options) {
  Dataflow flow(program, options);
  for (Program::Operation& op : program.operations) {
    const auto second = op.inputs.size() == 1 ? flow.convolution(op) : std::nullopt;
    if (!second || !is_depthwise(second->geometry)) continue;
    Program::Operation* const before = flow.only_for(op.inputs[0]);
    const auto first = before != nullptr && before->inputs.size() == 1 ? flow.convolution(*before) : std::nullopt;
    if (!first) continue;
    Program::Operation pair = op;
    pair.inputs = before->inputs;
    pair.module =
        std::make_shared<Fixed<ConvPairProblem>>(ConvPairProblem{*first, *second}, flow.shape(op.output), DType::f32);
    flow.join(op, std::move(pair), {before});
  }
  flow.finish();
}

}  // namespace lamina::detail
