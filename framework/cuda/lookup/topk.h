#pragma once

#include <cstddef>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// See cpu/lookup/topk.h; in the memory of CUDA device `device`. `workspace` is topk_workspace() bytes there.
void topk(int device, const TopKProblem& problem, const detail::LineExtents& extents, DType dtype, const void* input,
          void* output, void* workspace, Stream stream);
std::size_t topk_workspace(const TopKProblem& problem, const detail::LineExtents& extents, DType dtype);

}  // namespace lamina::cuda
