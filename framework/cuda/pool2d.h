#pragma once

#include "lamina/cuda/conv2d.h"
#include "lamina/tensor/pool_geometry.h"

/// Pooling of f32 planes in the memory of CUDA device `device`, input [planes, H, W], output [planes, OH, OW]; see
/// cpu/pool2d.h for what each computes. All are enqueued on `stream`.
namespace lamina::cuda {

void max_pool2d(int device, const PoolGeometry& geometry, const float* input, float* output, Stream stream);
void avg_pool2d(int device, const PoolGeometry& geometry, const float* input, float* output, Stream stream);
void adaptive_avg_pool2d(int device, const PoolGeometry& geometry, const float* input, float* output, Stream stream);

}  // namespace lamina::cuda
