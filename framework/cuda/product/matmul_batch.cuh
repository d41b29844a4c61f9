#pragma once

#include "lamina/cuda/product/product.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::cuda {

/// Whether it is a product of matrices of one type that activations have.
inline bool takes_matmul_any(const MatMulProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  return detail::is_matmul(problem, p) && is_activation(dtype) && p.inputs[1].format.dtype == dtype &&
         p.output().format.dtype == dtype;
}

/// a / b of what is not negative. 64 bits take a GPU a function of a hundred instructions, and are seldom needed.
__device__ inline std::int64_t divided(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

/// Where the operands of a batch begin; see MatMulExtents::operands.
__device__ inline detail::MatMulExtents::Offsets operands(const detail::MatMulExtents& e, std::int64_t batch) {
  detail::MatMulExtents::Offsets at{0, 0};
  for (int d = 0; d < e.batch_rank; ++d) {
    const std::int64_t next = divided(batch, e.extents[d]), i = batch - next * e.extents[d];
    batch = next;
    at.a += i * e.a_strides[d];
    at.b += i * e.b_strides[d];
  }
  return at;
}

}  // namespace lamina::cuda
