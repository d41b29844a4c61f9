// Removes taps of convolutions that only ever see padding: those of dilated convolutions of small maps, and of any
// convolution of maps of a few pixels. This comes before kernels are chosen, so that a convolution with a single tap
// left is a 1x1 layer like others.

#include "lamina/compile/dataflow.h"

namespace lamina::detail {

void narrow_windows(Program& program, const CompileOptions& options) {
  Dataflow flow(program, options);
  for (Program::Operation& op : program.operations) {
    const auto* conv = dynamic_cast<const Conv2d*>(op.module.get());
    if (conv == nullptr || op.view) continue;
    Program::Operation narrow = op;
    narrow.module = conv->with_live_window(program.value(op.inputs[0]).shape);
    if (narrow.module != nullptr) flow.join(op, std::move(narrow), {});
  }
}

}  // namespace lamina::detail
