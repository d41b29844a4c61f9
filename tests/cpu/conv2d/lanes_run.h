#pragma once

#include <cstdint>
#include <span>

#include "lamina/cpu/conv2d/lanes/lanes.h"
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

/// The row of the table, with an instruction set.
struct Lanes {
  View views[2];
  Preparation p;

  Lanes(const ConvGeometry& g, InstructionSet set, int threads, bool adds)
      : views{{.shape = {g.batch, g.in_channels, g.in_height, g.in_width}, .format = {DType::f32, Layout::nhwc}},
              {.shape = {g.batch, g.out_channels, g.out_height, g.out_width}, .format = {DType::f32, Layout::nhwc}}},
        p{.inputs = std::span(views).first(adds ? 2 : 1),
          .outputs = std::span(views).last(1),
          .device = describe(Device::cpu()),
          .threads = threads} {
    p.device.instructions = set;
  }
};

inline void run_lanes(InstructionSet set, const ConvGeometry& g, const Operands& o, const Epilogue& epilogue,
                      ThreadPool& pool) {
  const Lanes lanes(g, set, pool.threads(), epilogue.reads_operands());
  const auto borrowed = [](const float* from, const Shape& shape) {
    return Tensor::borrow(const_cast<float*>(from), shape, DType::f32, Device::cpu());
  };
  const Shape window = {g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width};
  const ConvProblem problem = {.geometry = g,
                               .weight = borrowed(o.weight, window),
                               .bias = o.bias == nullptr ? Tensor() : borrowed(o.bias, {g.out_channels}),
                               .epilogue = epilogue};
  const LanesConv conv(problem, DType::f32, lanes.p);
  const std::size_t bytes = conv.workspace_bytes() * static_cast<std::size_t>(pool.threads());
  Guarded<float> workspace(whole_lines(static_cast<std::int64_t>(bytes / sizeof(float))));
  const Tensor inputs[] = {borrowed(o.input, lanes.views[0].shape), borrowed(o.residual, lanes.views[1].shape)};
  Tensor output = borrowed(o.output, lanes.views[1].shape);
  conv(std::span(inputs).first(lanes.p.inputs.size()), {&output, 1}, {.pool = &pool, .workspace = workspace.data()});
}

}  // namespace lamina::cpu
