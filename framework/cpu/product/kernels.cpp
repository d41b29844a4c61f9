// The tables of a CPU's products of matrices, nchw.

#include <algorithm>

#include "lamina/cpu/linear/linear.h"
#include "lamina/cpu/product/attention.h"
#include "lamina/cpu/product/matmul.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

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

template <class T>
const T* numbers(const Tensor& tensor) {
  return static_cast<const T*>(tensor.raw());
}

template <class T>
std::unique_ptr<Operator> prepare_matmul(const MatMulProblem& problem, const Preparation& p) {
  const cpu::bf16::Engine& engine = cpu::bf16::best_engine(p.device, dtype_of_all(p));
  cpu::MatMul<T> matmul(engine, detail::matmul_extents(problem, p));
  const std::size_t workspace = matmul.workspace(p.threads);
  return make_operator(detail::concat(sizeof(T) == 2 ? detail::concat("bf16: ", engine.what, ", ") : "",
                                      "packed panels, ", name(engine.set)),
                       {.workspace = workspace},
                       [matmul = std::move(matmul)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         matmul(numbers<T>(inputs[0]), numbers<T>(inputs[1]), static_cast<T*>(outputs[0].raw()),
                                *execution.pool, static_cast<std::byte*>(execution.workspace));
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
  return dtype_of_all(p) == DType::bf16 && detail::is_matmul(problem, p) && alike(p);
}

template <class T>
bool takes_attention(const AttentionProblem& problem, const Preparation& p) {
  const Format format = {.dtype = dtype_of<T>};
  if (!p.keeps_format() || p.input().format != format || !detail::is_attention(problem, p)) return false;
  // The rows of heads that share keys are one matrix.
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  return e.heads == e.groups || e.q.head == e.length * e.q.row;
}

template <class T>
std::unique_ptr<Operator> prepare_attention(const AttentionProblem& problem, const Preparation& p) {
  const cpu::AttentionKernel kernel = cpu::attention_kernel(cpu::bf16::best_engine(p.device, p.input().format.dtype));
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  const bool narrow = sizeof(T) == 2;
  return make_operator(detail::concat(narrow ? detail::concat("bf16: ", kernel.engine->what, ", ") : "",
                                      "online softmax", narrow ? " in f32, " : ", ", name(kernel.rows->set)),
                       {.workspace = cpu::attention_workspace(kernel, e, p.threads)},
                       [=](Inputs inputs, Outputs outputs, const Execution& execution) {
                         const cpu::AttentionPointers<T> pointers = {.q = numbers<T>(inputs[0]),
                                                                     .k = numbers<T>(inputs[1]),
                                                                     .v = numbers<T>(inputs[2]),
                                                                     .mask = e.masked ? numbers<T>(inputs[3]) : nullptr,
                                                                     .output = static_cast<T*>(outputs[0].raw())};
                         cpu::attention(kernel, e, pointers, *execution.pool,
                                        static_cast<std::byte*>(execution.workspace));
                       });
}

constexpr Kernel<MatMulProblem> matmul[] = {{"dot", takes_matmul_dot, prepare_matmul_dot, pays_matmul_dot},
                                            {"panels", takes_matmul, prepare_matmul<float>},
                                            {"bf16", takes_bf16_matmul, prepare_matmul<bfloat16>},
                                            {"loops", takes_matmul_loops, prepare_matmul_loops}};
constexpr Kernel<AttentionProblem> attention[] = {
    {"online", takes_attention<float>, prepare_attention<float>, nullptr, reads::strides},
    {"bf16", takes_attention<bfloat16>, prepare_attention<bfloat16>, nullptr, reads::strides}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<MatMulProblem>> Kernels<MatMulProblem>::cpu() { return matmul; }
template <> std::span<const Kernel<AttentionProblem>> Kernels<AttentionProblem>::cpu() { return attention; }
// clang-format on

}  // namespace lamina
