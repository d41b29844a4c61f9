#pragma once

#include "lamina/cuda/runtime/stream.h"

namespace lamina::cuda {

/// Workspace that `square_product` wants.
inline constexpr std::size_t square_product_workspace = std::size_t{32} << 20;

/// Enqueues C = A * B through cuBLAS in plain fp32: the arithmetic ceiling that benchmarks compare with.
/// Throws Error if cuBLAS is not there.
void square_product(int device,
                    const float* a,  // [n, n]
                    const float* b,  // [n, n]
                    float* c,        // [n, n]
                    int n,
                    void* workspace,  // square_product_workspace bytes
                    Stream stream);

}  // namespace lamina::cuda
