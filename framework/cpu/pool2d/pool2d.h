#pragma once

#include <cstddef>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/pool_geometry.h"

/// Pooling on the CPU. The layers have validated the geometry.
namespace lamina::cpu {

/// Bytes of scratch memory that each function below needs: one padded row for each thread.
std::size_t pool2d_workspace(const PoolGeometry& geometry, int threads);

/// The largest value of each window; NaN if there is one in it, -inf if it holds no pixel at all.
void max_pool2d(const PoolGeometry& geometry,
                const float* input,  // [planes, H, W]
                float* output,       // [planes, OH, OW]
                ThreadPool& pool, float* workspace);

/// The mean of each window, padding counting as zeros or not at all; 0 for a window without pixels.
void avg_pool2d(const PoolGeometry& geometry,
                const float* input,  // [planes, H, W]
                float* output,       // [planes, OH, OW]
                ThreadPool& pool, float* workspace);

/// The mean of each of OH x OW windows that cover the input: rows floor(i H / OH) to ceil((i + 1) H / OH), and so the
/// columns. Uses only the extents of the geometry.
void adaptive_avg_pool2d(const PoolGeometry& geometry,
                         const float* input,  // [planes, H, W]
                         float* output,       // [planes, OH, OW]
                         ThreadPool& pool, float* workspace);

}  // namespace lamina::cpu
