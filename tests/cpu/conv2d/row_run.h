#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "lamina/kernel/kernel.h"
#include "support/guarded.h"

namespace lamina::cpu {

/// One convolution, all of whose operands are channels last and between guard pages.
struct Operands {
  const float* input;
  const float* weight;
  const float* bias;
  const float* residual;
  float* output;
};

/// What a row of the table is prepared for, with an instruction set, and run on.
struct Run {
  View views[2];
  Preparation p;
  ConvProblem problem;
  Tensor inputs[2], output;

  static Tensor borrowed(const float* from, const Shape& shape) {
    return Tensor::borrow(const_cast<float*>(from), shape, DType::f32, Device::cpu());
  }

  Run(const ConvGeometry& g, InstructionSet set, int threads, const Epilogue& epilogue, const Operands& o = {},
      Layout from = Layout::nhwc, Layout to = Layout::nhwc)
      : views{{.shape = {g.batch, g.in_channels, g.in_height, g.in_width}, .format = {DType::f32, from}},
              {.shape = {g.batch, g.out_channels, g.out_height, g.out_width}, .format = {DType::f32, to}}},
        p{.inputs = std::span(views).first(epilogue.reads_operands() ? 2 : 1),
          .outputs = std::span(views).last(1),
          .device = describe(Device::cpu()),
          .threads = threads},
        problem{.geometry = g,
                .weight = borrowed(o.weight, {g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}),
                .bias = o.bias == nullptr ? Tensor() : borrowed(o.bias, {g.out_channels}),
                .epilogue = epilogue},
        inputs{borrowed(o.input, views[0].shape), borrowed(o.residual, views[1].shape)},
        output(borrowed(o.output, views[1].shape)) {
    p.device.instructions = set;
  }

  void operator()(std::string_view row, ThreadPool& pool) {
    const auto named = [&](const Kernel<ConvProblem>& kernel) { return kernel.name == row; };
    const auto op = std::ranges::find_if(Kernels<ConvProblem>::cpu(), named)->prepare(problem, p);
    Guarded<float> workspace(whole_lines(static_cast<std::int64_t>(op->workspace_bytes() / sizeof(float))));
    op->run(std::span(inputs).first(p.inputs.size()), {&output, 1}, {.pool = &pool, .workspace = workspace.data()});
  }
};

}  // namespace lamina::cpu
