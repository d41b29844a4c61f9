#pragma once

#include <cuda_runtime.h>

/// Split-K: the blocks of a cluster share one tile, each with a piece of K. Here what the host knows of it too.
namespace lamina::cuda {

inline constexpr int max_splits = 8;  // the blocks of a cluster that every device can have

/// Fragments that each block finishes of a tile's; the last may have fewer.
__host__ __device__ constexpr int fragments_owned(int fragments, int splits) {
  return (fragments + splits - 1) / splits;
}

}  // namespace lamina::cuda
