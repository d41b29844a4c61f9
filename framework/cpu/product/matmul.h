#pragma once

#include <cstddef>
#include <cstdint>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/product/matmul_tile.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// c = alpha * a b of f32: b is packed into panels of the tile's columns, threads share out blocks of rows and panels.
/// Allocates nothing; `workspace` is 64-byte aligned and matmul_workspace() bytes.
void matmul(const MatMulKernel& kernel, const detail::MatMulExtents& extents,
            const float* a,  // [batches, m, k], as the strides say
            const float* b,  // [batches, k, n], as the strides say
            float* c,        // [batches, m, n]
            ThreadPool& pool, float* workspace);
std::size_t matmul_workspace(const MatMulKernel& kernel, const detail::MatMulExtents& extents, int threads);

/// The same for any dtype by plain loops: floats of 16 bits are summed in f32, whole numbers wrap.
void matmul_loops(DType dtype, const detail::MatMulExtents& extents, const void* a, const void* b, void* c,
                  ThreadPool& pool);
/// Whether it knows the dtype: not booleans.
bool matmul_loops_know(DType dtype);

}  // namespace lamina::cpu
