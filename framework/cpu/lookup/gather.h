#pragma once

#include <cstddef>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/rules/lookup_extents.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// Elements of `size` bytes of `data` at places that `indices`, of i64 or i32, say; negative ones count from the end,
/// of one that is outside it throws Error.
void gather(const detail::IndexExtents& extents, std::size_t size, DType index_type, const void* data,
            const void* indices, void* output, ThreadPool& pool);

}  // namespace lamina::cpu
