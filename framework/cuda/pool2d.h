#pragma once

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/neighbours.h"
#include "lamina/kernel/problems.h"
#include "lamina/tensor/format.h"

/// Pooling on a GPU; see kernel/problems.h for what each kind computes.
namespace lamina::cuda {

/// How a pooling's activations are stored: [N, channels, H, W] of f32, f16 or bf16, each side nchw or nhwc.
struct PoolFormat {
  std::int64_t channels = 1;
  DType dtype = DType::f32;
  Layout input = Layout::nchw;
  Layout output = Layout::nchw;
  std::int64_t pixel_pitch = 1;  ///< of an nhwc output, elements from one pixel to the next
  Neighbours neighbours = {};    ///< heeded where both sides have the same layout, but for means of whole images
};

/// Enqueues the pooling. A pitch other than the channels is for nhwc on both sides, in whole packs of 16 bytes. Both
/// sides are in the memory of CUDA device `device`. Throws Error for other formats.
void pool2d(int device, PoolKind kind, const PoolGeometry& geometry, const PoolFormat& format, const void* input,
            void* output, Stream stream);

}  // namespace lamina::cuda
