#include "lamina/cpu/linear/bf16.h"

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/bf16/convolution.h"
#include "lamina/cpu/linear/linear.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/constants.h"

namespace lamina::cpu {
namespace {

using detail::floats;

bool is_row_major(const View& view) {
  const Format& f = view.format;
  return (f.dtype == DType::bf16 || f.dtype == DType::f32) && f.layout == Layout::nchw;
}

/// Floats of a row with room behind it, a multiple of a cache line.
std::int64_t padded(std::int64_t count) { return detail::round_up<std::int64_t>(count, 16) + 16; }

}  // namespace

std::unique_ptr<Operator> prepare_bf16_linear(const LinearProblem& problem, const Preparation& p) {
  const LinearKernel& kernel = best_kernel(linear_kernels(), p.device);
  const bf16::Moves& moves = best_kernel(bf16::moves(), p.device);
  const Tensor weight = detail::packed(detail::Packing("rounded"), {problem.weight}, problem.weight.shape(),
                                       DType::bf16, [&](Tensor& to) { to = problem.weight.to(DType::bf16); });
  Tensor bias = Tensor::zeros({padded(problem.out)});
  if (problem.bias.defined()) std::copy_n(floats(problem.bias), problem.out, floats(bias));
  bias = detail::constant(bias);
  // Inputs as f32, sums, and two rows for finish(); then what the dot products want.
  const std::int64_t rows = problem.rows, in = problem.in, out = problem.out, result = padded(out);
  const std::int64_t inputs_size = padded(rows * in), sums_size = padded(rows * out);
  const std::int64_t own = inputs_size + sums_size + 2 * result;
  return detail::make_operator(
      detail::concat("bf16: dot products of f32, weights streamed once as bf16, ", name(kernel.set)),
      {.workspace = static_cast<std::size_t>(own) * sizeof(float) + linear_workspace(kernel, rows, in)},
      [=, &kernel, &moves, epilogue = row_epilogue(problem.epilogue, p.device),
       adds = problem.epilogue.reads_operands(), from = p.input().format.dtype, to = p.output().format.dtype](
          std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        auto* const wide = static_cast<float*>(execution.workspace);
        float* const sums = wide + inputs_size;
        float* const results = sums + sums_size;
        const float* input = floats(inputs[0]);
        if (from == DType::bf16) {
          moves.widen(static_cast<const bfloat16*>(inputs[0].raw()), rows * in, wide);
          input = wide;
        }
        linear(kernel, rows, in, out,
               {.input = input, .weight = weight.raw(), .output = sums, .weight_type = DType::bf16}, *execution.pool,
               wide + own);
        const std::int64_t size = to == DType::bf16 ? 2 : 4;
        for (std::int64_t row = 0; row < rows; ++row) {
          const auto* residual = adds ? static_cast<const std::byte*>(inputs[1].raw()) + row * out * size : nullptr;
          bf16::finish(moves, epilogue,
                       {.sums = sums + row * out,
                        .row = out,
                        .bias = floats(bias),
                        .output = static_cast<std::byte*>(outputs[0].raw()) + row * out * size,
                        .pixel = out,
                        .count = 1,
                        .filters = static_cast<int>(out)},
                       to, residual, results, results + result);
        }
      });
}

bool takes_bf16_linear(const LinearProblem& problem, const Preparation& p) {
  if (p.precision != Precision::bf16 || !problem.epilogue.is_residual()) return false;
  if (problem.rows > std::numeric_limits<int>::max()) return false;
  if (!std::ranges::all_of(p.inputs, is_row_major) || !is_row_major(p.output())) return false;
  return !problem.epilogue.reads_operands() || (p.inputs.size() > 1 && p.inputs[1].format == p.output().format);
}

}  // namespace lamina::cpu
