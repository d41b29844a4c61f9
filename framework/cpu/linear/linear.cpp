#include "lamina/cpu/linear/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/linear/bf16.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/linear_as_convolution.h"
#include "lamina/tensor/constants.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;

/// Bytes of weights in a task: some tens of microseconds.
constexpr std::int64_t task_bytes = 256 << 10;

}  // namespace

std::size_t linear_workspace(const LinearKernel& kernel, std::int64_t rows, std::int64_t in) {
  const auto floats = detail::product_up_to(std::numeric_limits<std::int64_t>::max() / 8,
                                            {rows, round_up<std::int64_t>(in, kernel.lanes)});
  if (!floats) detail::fail("linear: ", rows, " rows of ", in, " are too large");
  return static_cast<std::size_t>(*floats) * sizeof(float);
}

void linear(const LinearKernel& kernel, std::int64_t rows, std::int64_t in, std::int64_t out, const LinearPointers& p,
            ThreadPool& pool, float* workspace) {
  const std::int64_t packed_row = round_up<std::int64_t>(in, kernel.lanes);
  pool.parallel_for(ceil_div<std::int64_t>(rows, kernel.rows), [&](std::int64_t tile, int) {
    const std::int64_t row = tile * kernel.rows;
    kernel.pack(p.input + row * in, std::min<std::int64_t>(kernel.rows, rows - row), in, workspace + row * packed_row);
  });
  const auto run = p.weight_type == DType::f32 ? kernel.f32 : p.weight_type == DType::bf16 ? kernel.bf16 : kernel.f16;
  const std::int64_t row_bytes = in * static_cast<std::int64_t>(size_of(p.weight_type));
  // Whole tiles, whichever the instruction set.
  const std::int64_t step = round_up(std::clamp<std::int64_t>(task_bytes / row_bytes, 1, out), std::int64_t{24});
  const std::int64_t jobs = ceil_div(rows, LinearJob::max_rows);
  pool.parallel_for(ceil_div(out, step) * jobs, [&](std::int64_t task, int) {
    const std::int64_t row = task % jobs * LinearJob::max_rows;
    const std::int64_t first = task / jobs * step;
    run({.input = workspace + row * packed_row,
         .weight = p.weight,
         .bias = p.bias,
         .output = p.output + row * out,
         .rows = std::min(LinearJob::max_rows, rows - row),
         .in = in,
         .out = out,
         .first = first,
         .last = std::min(out, first + step),
         .relu = p.relu});
  });
}

}  // namespace lamina::cpu

namespace lamina {
namespace {

/// The weights as f16 or bf16. Throws Error if a finite one becomes infinite.
Tensor narrowed(const Tensor& weight, DType type) {
  Tensor result = weight.to(type);
  const std::span<const float> exact = weight.values<float>();
  const auto check = [&](const auto& rounded) {
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (std::isfinite(exact[i]) && !std::isfinite(to_float(rounded[i]))) {
        detail::fail("linear: weight ", exact[i], " is beyond the range of ", type, "; keep linear weights in f32");
      }
    }
  };
  type == DType::f16 ? check(result.values<half>()) : check(result.values<bfloat16>());
  return result;
}

bool takes(const LinearProblem&, const Preparation& p) { return p.is_plain() && p.precision == Precision::fp32; }

std::unique_ptr<Operator> prepare(const LinearProblem& problem, const Preparation& p) {
  const DType type = p.linear_weights;
  if (type != DType::f32 && type != DType::bf16 && type != DType::f16) {
    detail::fail("linear: expected linear_weights of f32, bf16 or f16, got ", type);
  }
  LinearProblem own = problem;
  own.weight = type == DType::f32
                   ? detail::constant(problem.weight)
                   : detail::packed(detail::Packing("narrowed"), {problem.weight}, problem.weight.shape(), type,
                                    [&](Tensor& to) { to = narrowed(problem.weight, type); });
  own.bias = detail::constant(problem.bias);
  const cpu::LinearKernel& kernel = cpu::best_kernel(cpu::linear_kernels(), p.device);
  return detail::make_operator(
      detail::concat("dot products", own.rows <= cpu::LinearJob::max_rows ? ", weights streamed once" : "",
                     type == DType::f32 ? "" : detail::concat(" as ", type), ", ", name(kernel.set)),
      {.workspace = cpu::linear_workspace(kernel, own.rows, own.in)},
      [own, &kernel, type](std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        const cpu::LinearPointers pointers = {.input = detail::floats(inputs[0]),
                                              .weight = own.weight.raw(),
                                              .bias = detail::floats(own.bias),
                                              .output = detail::floats(outputs[0]),
                                              .relu = own.epilogue.relu(),
                                              .weight_type = type};
        cpu::linear(kernel, own.rows, own.in, own.out, pointers, *execution.pool,
                    static_cast<float*>(execution.workspace));
      });
}

/// As a 1x1 convolution, which packs its weights, by whichever row takes that.
bool takes_product(const LinearProblem& problem, const Preparation& p) {
  const bool stored =
      detail::are_rows_in_order(p) && (p.precision != Precision::fp32 || p.linear_weights == DType::f32);
  return problem.rows <= std::numeric_limits<int>::max() / 4 && stored && detail::takes_by_convolution(problem, p);
}

/// Where each image has rows enough to use what is packed. The batch does not count: an image's bits would depend on
/// it.
bool product_pays(const LinearProblem& problem, const Preparation& p) {
  const std::int64_t rows = problem.rows / p.images;
  if (p.precision == Precision::bf16) return rows > 4 || cpu::bf16::best_engine(p.device).unit == cpu::bf16::Unit::amx;
  return rows >= 16 || !problem.epilogue.is_simple();  // which `dot` would not take
}

constexpr Kernel<LinearProblem> table[] = {
    {"product", takes_product, detail::prepare_by_convolution, product_pays, reads::chain | reads::operands},
    {"dot", takes, prepare},
    {"bf16", cpu::takes_bf16_linear, cpu::prepare_bf16_linear, nullptr, reads::chain | reads::operands},
    {"int8", detail::is_eight_bits, detail::prepare_by_convolution, nullptr,
     reads::codes | reads::chain | reads::zero_points | reads::float_bias | reads::sums | reads::sum_codes}};

}  // namespace

template <>
std::span<const Kernel<LinearProblem>> Kernels<LinearProblem>::cpu() {
  return table;
}

}  // namespace lamina
