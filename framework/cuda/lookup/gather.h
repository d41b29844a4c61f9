#pragma once

#include <cstddef>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// See cpu/lookup/gather.h; in the memory of CUDA device `device`. An index that is outside is noted in `fault`, where
/// the device can write, unless that is null, and 0 stands for its element.
void gather(int device, const detail::IndexExtents& extents, std::size_t size, DType index_type, const void* data,
            const void* indices, void* output, IndexFault* fault, Stream stream);

}  // namespace lamina::cuda
