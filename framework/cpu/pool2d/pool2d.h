#pragma once

#include <cstddef>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/pool2d/rows.h"
#include "lamina/kernel/problems.h"

/// Pooling on the CPU. The layers have validated the geometry.
namespace lamina::cpu {

/// Bytes of scratch memory that `pool2d` needs: one padded row for each thread.
std::size_t pool2d_workspace(const PoolGeometry& geometry, int threads);

/// The largest value of each window, NaN if there is one in it, -inf if it holds no pixel at all; its mean, padding
/// counting as zeros or not at all, 0 for a window without pixels; or the mean of each of OH x OW windows that cover
/// the input: rows floor(i H / OH) to ceil((i + 1) H / OH), and so the columns.
void pool2d(PoolKind kind, const PoolKernel& kernel, const PoolGeometry& geometry,
            const float* input,  // [planes, H, W]
            float* output,       // [planes, OH, OW]
            ThreadPool& pool, float* workspace);

}  // namespace lamina::cpu
