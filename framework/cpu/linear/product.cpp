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

  AsConvolution(const LinearProblem& linear, const Preparation& p) : inputs(p.inputs.begin(), p.inputs.end()) {
    const auto rows = static_cast<int>(linear.rows);
    ConvGeometry& g = problem.geometry;
    g.batch = 1;
    g.in_channels = linear.in, g.in_height = rows, g.in_width = 1;
    g.out_channels = linear.out, g.out_height = rows, g.out_width = 1;
    g.kernel_height = g.kernel_width = 1;
    if (linear.weight.defined()) problem.weight = linear.weight.view({linear.out, linear.in, 1, 1});
    problem.bias = linear.bias;
    problem.epilogue = linear.epilogue;
    output = image(p.output(), linear.out, rows);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = image(p.inputs[i], i == 0 ? linear.in : linear.out, rows);
    preparation = p;
    preparation.inputs = inputs;
    preparation.outputs = {&output, 1};
    preparation.algorithm = "channels_last";
  }
  AsConvolution(const AsConvolution&) = delete;
  AsConvolution& operator=(const AsConvolution&) = delete;

 private:
  static View image(View view, int channels, int rows) {
    view.shape = {1, channels, rows, 1};
    view.format.layout = Layout::nhwc;
    return view;
  }
};

}  // namespace

bool takes(const LinearProblem& problem, const Preparation& p) {
  if (problem.rows > std::numeric_limits<int>::max() / 4 || p.linear_weights != DType::f32) return false;
  const auto in_order = [](const View& view) { return view.format.layout == Layout::nchw; };
  if (!std::all_of(p.inputs.begin(), p.inputs.end(), in_order) || !in_order(p.output())) return false;
  const AsConvolution conv(problem, p);
  return find_kernel(conv.problem, conv.preparation) != nullptr;
}

bool pays(const LinearProblem& problem, const Preparation& p) { return problem.rows / p.images >= 16; }

std::unique_ptr<Operator> prepare(const LinearProblem& problem, const Preparation& p) {
  const AsConvolution conv(problem, p);
  return choose(conv.problem, conv.preparation).prepare(conv.problem, conv.preparation);
}

}  // namespace lamina::cpu::linear_product
