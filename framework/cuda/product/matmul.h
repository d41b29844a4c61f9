#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

/// Products of matrices in the memory of CUDA device `device`, any extents and addresses.
namespace lamina::cuda {

/// By fp32 multiply-adds; f32.
void matmul(int device, const detail::MatMulExtents& extents, const float* a, const float* b, float* c, Stream stream);

/// On tensor cores (mma.sync, sm_80) with fp32 accumulation; f16 or bf16. `multiprocessors` decides how large tiles
/// are.
void matmul_mma(int device, int multiprocessors, DType dtype, const detail::MatMulExtents& extents, const void* a,
                const void* b, void* c, Stream stream);

/// Few rows, each a few sums over a and b that are read once: any of f32, f16 and bf16.
void matmul_rows(int device, DType dtype, const detail::MatMulExtents& extents, const void* a, const void* b, void* c,
                 Stream stream);
inline constexpr std::int64_t matmul_max_rows = 4;

}  // namespace lamina::cuda
