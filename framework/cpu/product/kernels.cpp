// The tables of a CPU's products of matrices, nchw.

#include <algorithm>

#include "lamina/cpu/linear/linear.h"
#include "lamina/cpu/product/attention.h"
#include "lamina/cpu/product/bf16_attention.h"
#include "lamina/cpu/product/bf16_matmul.h"
#include "lamina/cpu/product/matmul.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/lookup_extents.h"

namespace lamina {
namespace {

using namespace tables;

DType dtype_of_all(const Preparation& p) { return p.input().format.dtype; }

bool alike(const Preparation& p) {
  const auto same = [&](const View& view) { return view.format.dtype == dtype_of_all(p); };
  return std::all_of(p.inputs.begin(), p.inputs.end(), same) && std::all_of(p.outputs.begin(), p.outputs.end(), same);
}

bool takes_matmul(const MatMulProblem& problem, const Preparation& p) {
  return detail::is_matmul(problem, p) && p.is_plain();
}

std::unique_ptr<Operator> prepare_matmul(const MatMulProblem& problem, const Preparation& p) {
  const cpu::MatMulKernel& kernel = cpu::best_kernel(cpu::matmul_kernels(), p.device);
  const detail::MatMulExtents e = detail::matmul_extents(problem, p);
  return make_operator(detail::concat("packed panels, ", name(kernel.set)),
                       {.workspace = cpu::matmul_workspace(kernel, e, p.threads)},
                       [e, &kernel](Inputs inputs, Outputs outputs, const Execution& execution) {
                         cpu::matmul(kernel, e, floats(inputs[0]), floats(inputs[1]), floats(outputs[0]),
                                     *execution.pool, static_cast<float*>(execution.workspace));
                       });
}

/// Few rows, and b' as a fully connected layer has its weights: they stream from memory once, nothing is packed.
bool takes_matmul_dot(const MatMulProblem& problem, const Preparation& p) {
  return takes_matmul(problem, p) && problem.transpose_b && !problem.transpose_a && p.input().shape[-1] > 0;
}

bool pays_matmul_dot(const MatMulProblem& problem, const Preparation& p) {
  const detail::MatMulExtents e = detail::matmul_extents(problem, p);
  return e.m <= 6 && e.n * e.k >= 4096;
}

std::unique_ptr<Operator> prepare_matmul_dot(const MatMulProblem& problem, const Preparation& p) {
  const cpu::LinearKernel& kernel = cpu::best_kernel(cpu::linear_kernels(), p.device);
  const detail::MatMulExtents e = detail::matmul_extents(problem, p);
  return make_operator(
      detail::concat("dot products, ", name(kernel.set)), {.workspace = cpu::linear_workspace(kernel, e.m, e.k)},
      [e, &kernel](Inputs inputs, Outputs outputs, const Execution& execution) {
        if (e.m * e.n == 0) return;
        for (std::int64_t batch = 0; batch < e.batches; ++batch) {
          const auto at = e.operands(batch);
          float* const c = floats(outputs[0]) + batch * e.m * e.n;
          cpu::linear(kernel, e.m, e.k, e.n,
                      {.input = floats(inputs[0]) + at.a, .weight = floats(inputs[1]) + at.b, .output = c},
                      *execution.pool, static_cast<float*>(execution.workspace));
          if (e.alpha == 1) continue;
          for (std::int64_t i = 0; i < e.m * e.n; ++i) c[i] *= static_cast<float>(e.alpha);
        }
      });
}

/// Whole numbers by a factor that is none have no agreed meaning.
bool takes_matmul_loops(const MatMulProblem& problem, const Preparation& p) {
  const DType dtype = dtype_of_all(p);
  return detail::is_matmul(problem, p) && alike(p) && cpu::matmul_loops_know(dtype) &&
         (is_float(dtype) || problem.alpha == 1);
}

std::unique_ptr<Operator> prepare_matmul_loops(const MatMulProblem& problem, const Preparation& p) {
  return make_operator("plain loops", [e = detail::matmul_extents(problem, p), dtype = dtype_of_all(p)](
                                          Inputs inputs, Outputs outputs, const Execution& execution) {
    cpu::matmul_loops(dtype, e, inputs[0].raw(), inputs[1].raw(), outputs[0].raw(), *execution.pool);
  });
}

bool takes_bf16_matmul(const MatMulProblem& problem, const Preparation& p) {
  if (dtype_of_all(p) != DType::bf16 || !detail::is_matmul(problem, p) || !alike(p)) return false;
  const detail::MatMulExtents e = detail::matmul_extents(problem, p);
  return e.k > 0 && e.k * e.n <= cpu::bf16::MatMul::most_numbers;
}

std::unique_ptr<Operator> prepare_bf16_matmul(const MatMulProblem& problem, const Preparation& p) {
  const cpu::bf16::Engine& engine = cpu::bf16::best_engine(p.device);
  cpu::bf16::MatMul matmul(engine, detail::matmul_extents(problem, p));
  const std::size_t workspace = matmul.workspace(p.threads);
  return make_operator(
      detail::concat("bf16: ", engine.what, ", packed panels, ", name(engine.set)), {.workspace = workspace},
      [matmul = std::move(matmul)](Inputs inputs, Outputs outputs, const Execution& execution) {
        matmul(static_cast<const bfloat16*>(inputs[0].raw()), static_cast<const bfloat16*>(inputs[1].raw()),
               static_cast<bfloat16*>(outputs[0].raw()), *execution.pool, static_cast<std::byte*>(execution.workspace));
      });
}

bool takes_attention_of(DType dtype, const AttentionProblem& problem, const Preparation& p) {
  if (!p.keeps_format() || p.input().format != Format{.dtype = dtype} || !detail::is_attention(problem, p))
    return false;
  // The rows of heads that share keys are one matrix.
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  return e.heads == e.groups || e.q.head == e.length * e.q.row;
}

bool takes_attention(const AttentionProblem& problem, const Preparation& p) {
  return takes_attention_of(DType::f32, problem, p);
}

bool takes_bf16_attention(const AttentionProblem& problem, const Preparation& p) {
  return takes_attention_of(DType::bf16, problem, p) && p.input().shape[-1] > 0 &&
         p.input().shape[-1] <= cpu::bf16::most_attention_depth;
}

std::unique_ptr<Operator> prepare_bf16_attention(const AttentionProblem& problem, const Preparation& p) {
  const cpu::bf16::AttentionKernel kernel = cpu::bf16::attention_kernel(cpu::bf16::best_engine(p.device));
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  const auto numbers = [](const Tensor& tensor) { return static_cast<const bfloat16*>(tensor.raw()); };
  return make_operator(
      detail::concat("bf16: ", kernel.engine->what, ", online softmax in f32, ", name(kernel.rows->set)),
      {.workspace = cpu::bf16::attention_workspace(kernel, e, p.threads)},
      [=](Inputs inputs, Outputs outputs, const Execution& execution) {
        const cpu::bf16::AttentionPointers pointers = {.q = numbers(inputs[0]),
                                                       .k = numbers(inputs[1]),
                                                       .v = numbers(inputs[2]),
                                                       .mask = e.masked ? numbers(inputs[3]) : nullptr,
                                                       .output = static_cast<bfloat16*>(outputs[0].raw())};
        cpu::bf16::attention(kernel, e, pointers, *execution.pool, static_cast<std::byte*>(execution.workspace));
      });
}

std::unique_ptr<Operator> prepare_attention(const AttentionProblem& problem, const Preparation& p) {
  const cpu::MatMulKernel& kernel = cpu::best_kernel(cpu::matmul_kernels(), p.device);
  const cpu::OnlineSoftmax& softmax = cpu::best_kernel(cpu::online_softmax_kernels(), p.device);
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  return make_operator(detail::concat("online softmax, ", name(kernel.set)),
                       {.workspace = cpu::attention_workspace(kernel, e, p.threads)},
                       [e, &kernel, &softmax](Inputs inputs, Outputs outputs, const Execution& execution) {
                         const cpu::AttentionPointers pointers = {.q = floats(inputs[0]),
                                                                  .k = floats(inputs[1]),
                                                                  .v = floats(inputs[2]),
                                                                  .mask = e.masked ? floats(inputs[3]) : nullptr,
                                                                  .output = floats(outputs[0])};
                         cpu::attention(kernel, softmax, e, pointers, *execution.pool,
                                        static_cast<float*>(execution.workspace));
                       });
}

constexpr Kernel<MatMulProblem> matmul[] = {{"dot", takes_matmul_dot, prepare_matmul_dot, pays_matmul_dot},
                                            {"panels", takes_matmul, prepare_matmul},
                                            {"bf16", takes_bf16_matmul, prepare_bf16_matmul},
                                            {"loops", takes_matmul_loops, prepare_matmul_loops}};
constexpr Kernel<AttentionProblem> attention[] = {
    {.name = "online", .takes = takes_attention, .prepare = prepare_attention, .strided = true},
    {.name = "bf16", .takes = takes_bf16_attention, .prepare = prepare_bf16_attention, .strided = true}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<MatMulProblem>> Kernels<MatMulProblem>::cpu() { return matmul; }
template <> std::span<const Kernel<AttentionProblem>> Kernels<AttentionProblem>::cpu() { return attention; }
// clang-format on

}  // namespace lamina
