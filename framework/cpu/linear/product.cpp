#include "lamina/cpu/linear/product.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "lamina/kernel/kernel.h"

namespace lamina::cpu::linear_product {
namespace {

/// The convolution, and what it is prepared for.
struct AsConvolution {
  ConvProblem problem;
  std::vector<View> inputs;
  View output;
  Preparation preparation;

  AsConvolution(const LinearProblem& linear, const Preparation& p)
      : problem(as_convolution(linear)), inputs(p.inputs.begin(), p.inputs.end()), preparation(p) {
    output = image(p.output(), linear.out, linear.rows);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = image(p.inputs[i], i == 0 ? linear.in : linear.out, linear.rows);
    preparation.inputs = inputs;
    preparation.outputs = {&output, 1};
    preparation.algorithm = "channels_last";
  }
  AsConvolution(const AsConvolution&) = delete;
  AsConvolution& operator=(const AsConvolution&) = delete;

 private:
  static View image(View view, int channels, std::int64_t rows) {
    view.shape = {rows, channels, 1, 1};
    view.format.layout = Layout::nhwc;
    return view;
  }
};

}  // namespace

ConvProblem as_convolution(const LinearProblem& problem) {
  ConvProblem result = {.geometry = {.batch = problem.rows,
                                     .in_channels = problem.in,
                                     .in_height = 1,
                                     .in_width = 1,
                                     .out_channels = problem.out,
                                     .out_height = 1,
                                     .out_width = 1,
                                     .kernel_height = 1,
                                     .kernel_width = 1},
                        .bias = problem.bias,
                        .epilogue = problem.epilogue};
  if (problem.weight.defined()) result.weight = problem.weight.view({problem.out, problem.in, 1, 1});
  return result;
}

bool takes(const LinearProblem& problem, const Preparation& p) {
  if (problem.rows > std::numeric_limits<int>::max() / 4 || p.linear_weights != DType::f32) return false;
  const auto in_order = [](const View& view) { return view.format.layout == Layout::nchw; };
  if (!std::all_of(p.inputs.begin(), p.inputs.end(), in_order) || !in_order(p.output())) return false;
  const AsConvolution conv(problem, p);
  return find_kernel(conv.problem, conv.preparation) != nullptr;
}

bool pays(const LinearProblem& problem, const Preparation& p) {
  return problem.rows / p.images >= 16 || !problem.epilogue.is_simple();  // which `dot` would not take
}

std::unique_ptr<Operator> prepare(const LinearProblem& problem, const Preparation& p) {
  const AsConvolution conv(problem, p);
  return choose(conv.problem, conv.preparation).prepare(conv.problem, conv.preparation);
}

}  // namespace lamina::cpu::linear_product
