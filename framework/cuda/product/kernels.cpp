// The tables of a GPU's products of matrices.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/product/attention.h"
#include "lamina/cuda/product/matmul.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/lookup_extents.h"

namespace lamina {
namespace {

using namespace tables;

DType dtype_of(const Preparation& p) { return p.input().format.dtype; }

bool is_half(DType dtype) { return is_float(dtype) && size_of(dtype) == 2; }

bool takes_matmul_any(const MatMulProblem& problem, const Preparation& p) {
  return detail::is_matmul(problem, p) && is_activation(dtype_of(p)) && p.inputs[1].format.dtype == dtype_of(p) &&
         p.output().format.dtype == dtype_of(p);
}

/// It adds in another order than those for more rows, which may be images if there is but one matrix; the others' order
/// is the same whatever their tiles.
bool takes_matmul_rows(const MatMulProblem& problem, const Preparation& p) {
  if (p.batch_invariant && p.input().shape.rank() <= 2) return false;
  return takes_matmul_any(problem, p) && detail::matmul_extents(problem, p).m <= cuda::matmul_max_rows;
}

std::unique_ptr<Operator> prepare_matmul_rows(const MatMulProblem& problem, const Preparation& p) {
  return make_operator("b read once", [e = detail::matmul_extents(problem, p), device = index(p)](
                                          Inputs inputs, Outputs outputs, const Execution& execution) {
    cuda::matmul_rows(device, outputs[0].dtype(), e, inputs[0].raw(), inputs[1].raw(), outputs[0].raw(),
                      execution.stream);
  });
}

bool takes_matmul_mma(const MatMulProblem& problem, const Preparation& p) {
  return takes_matmul_any(problem, p) && is_half(dtype_of(p)) && p.device.architecture >= 80;
}

std::unique_ptr<Operator> prepare_matmul_mma(const MatMulProblem& problem, const Preparation& p) {
  return make_operator("mma.sync", [e = detail::matmul_extents(problem, p), device = index(p),
                                    multiprocessors = p.device.multiprocessors](Inputs inputs, Outputs outputs,
                                                                                const Execution& execution) {
    cuda::matmul_mma(device, multiprocessors, outputs[0].dtype(), e, inputs[0].raw(), inputs[1].raw(), outputs[0].raw(),
                     execution.stream);
  });
}

bool takes_matmul(const MatMulProblem& problem, const Preparation& p) {
  return takes_matmul_any(problem, p) && dtype_of(p) == DType::f32;
}

std::unique_ptr<Operator> prepare_matmul(const MatMulProblem& problem, const Preparation& p) {
  return make_operator("multiply-adds", [e = detail::matmul_extents(problem, p), device = index(p)](
                                            Inputs inputs, Outputs outputs, const Execution& execution) {
    cuda::matmul(device, e, floats(inputs[0]), floats(inputs[1]), floats(outputs[0]), execution.stream);
  });
}

/// The wider one of keys and values.
std::int64_t max_depth(const AttentionProblem& problem, const Preparation& p) {
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  return std::max(e.depth, e.width);
}

bool takes_attention_mma(const AttentionProblem& problem, const Preparation& p) {
  return detail::is_attention(problem, p) && is_activation(dtype_of(p)) && p.device.architecture >= 80 &&
         max_depth(problem, p) <= cuda::attention_mma_max_depth &&
         detail::attention_extents(problem, p).positions <= cuda::attention_mma_max_positions;
}

/// Its bits are others than attention_mma's, so batches, which decide who of the two pays, must be free to matter.
bool takes_attention_split(const AttentionProblem& problem, const Preparation& p) {
  if (!takes_attention_mma(problem, p) || p.batch_invariant) return false;
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  const auto aligned = [](const View& view) { return view.alignment % 16 == 0; };
  return cuda::attention_has_chunks(dtype_of(p), e) && std::ranges::all_of(p.inputs, aligned) &&
         std::ranges::all_of(p.outputs, aligned) &&
         cuda::attention_split_shared_bytes(dtype_of(p), e) <= p.device.shared_bytes;
}

/// Where blocks of 64 rows would leave multiprocessors idle, and there are several tiles of positions to share.
bool attention_split_pays(const AttentionProblem& problem, const Preparation& p) {
  const detail::AttentionExtents e = detail::attention_extents(problem, p);
  if (e.groups == 0) return false;
  const std::int64_t blocks = e.images * e.groups * detail::ceil_div<std::int64_t>(e.heads / e.groups * e.length, 64);
  return e.positions > 64 && blocks <= p.device.multiprocessors;
}

bool takes_attention(const AttentionProblem& problem, const Preparation& p) {
  return detail::is_attention(problem, p) && is_activation(dtype_of(p)) &&
         max_depth(problem, p) <= cuda::attention_max_depth &&
         cuda::attention_shared_bytes(detail::attention_extents(problem, p)) <= p.device.shared_bytes;
}

template <auto run>
std::unique_ptr<Operator> prepare_attention(const AttentionProblem& problem, const Preparation& p) {
  const char* const how = run == cuda::attention_split ? "online softmax, positions shared by warps" : "online softmax";
  return make_operator(how, [e = detail::attention_extents(problem, p), device = index(p)](
                                Inputs inputs, Outputs outputs, const Execution& execution) {
    run(device, outputs[0].dtype(), e,
        {.q = inputs[0].raw(),
         .k = inputs[1].raw(),
         .v = inputs[2].raw(),
         .mask = e.masked ? inputs[3].raw() : nullptr,
         .output = outputs[0].raw()},
        execution.stream);
  });
}

constexpr Kernel<MatMulProblem> matmul[] = {{"rows", takes_matmul_rows, prepare_matmul_rows},
                                            {"mma", takes_matmul_mma, prepare_matmul_mma},
                                            {"tiles", takes_matmul, prepare_matmul}};
constexpr Kernel<AttentionProblem> attention[] = {
    {.name = "split",
     .takes = takes_attention_split,
     .prepare = prepare_attention<cuda::attention_split>,
     .pays = attention_split_pays,
     .strided = true},
    {.name = "mma", .takes = takes_attention_mma, .prepare = prepare_attention<cuda::attention_mma>, .strided = true},
    {.name = "online", .takes = takes_attention, .prepare = prepare_attention<cuda::attention>, .strided = true}};

}  // namespace

// clang-format off
template <> std::span<const Kernel<MatMulProblem>> Kernels<MatMulProblem>::cuda() { return matmul; }
template <> std::span<const Kernel<AttentionProblem>> Kernels<AttentionProblem>::cuda() { return attention; }
// clang-format on

}  // namespace lamina
