#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::detail {

/// A fully connected layer as the 1x1 convolution of images of one pixel that it is: a row is an image, channels last.
/// `inputs` and `output` are what `preparation` points to.
struct LinearAsConvolution {
  ConvProblem problem;
  std::vector<View> inputs;
  View output;
  Preparation preparation;

  LinearAsConvolution(const LinearProblem& linear, const Preparation& p)
      : problem({.bias = linear.bias, .epilogue = linear.epilogue}), preparation(p) {
    ConvGeometry& g = problem.geometry;
    g.batch = linear.rows;
    g.in_channels = linear.in;
    g.out_channels = linear.out;
    g.in_height = g.in_width = g.out_height = g.out_width = g.kernel_height = g.kernel_width = 1;
    if (linear.weight.defined()) problem.weight = linear.weight.view({linear.out, linear.in, 1, 1});
    const auto pixels = [&](const View& view, int channels) {
      const std::int64_t rows = view.shape.numel() == channels ? 1 : linear.rows;  // numbers of channels
      return View{.shape = {rows, channels, 1, 1},
                  .format = {view.format.dtype, Layout::nhwc},
                  .quantization = view.quantization};
    };
    problem.eight = linear.eight;
    if (linear.eight.defined()) problem.eight.weight = linear.eight.weight.view({linear.out, linear.in, 1, 1});
    for (const View& input : p.inputs) inputs.push_back(pixels(input, inputs.empty() ? linear.in : linear.out));
    output = pixels(p.output(), linear.out);
    preparation.inputs = inputs;
    preparation.outputs = {&output, 1};
  }
  LinearAsConvolution(const LinearAsConvolution&) = delete;
  LinearAsConvolution& operator=(const LinearAsConvolution&) = delete;
};

/// Whether rows lie one after the other, as those images' pixels would.
inline bool are_rows_in_order(const Preparation& p) {
  const auto in_order = [](const View& view) { return view.format.layout == Layout::nchw; };
  return std::ranges::all_of(p.inputs, in_order) && in_order(p.output());
}

/// Whether a row of the table of convolutions takes a layer as one; and the operator of that row. Which kernel was
/// asked for is not about that convolution.
bool takes_by_convolution(const LinearProblem& linear, const Preparation& preparation);
std::unique_ptr<Operator> prepare_by_convolution(const LinearProblem& linear, const Preparation& preparation);

}  // namespace lamina::detail
