#pragma once

#include <cstddef>
#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/rules/extents.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cpu {

/// Rows side by side: row r of the output is row r of every input, one after the other. What lies there already is left
/// alone.
void concat(std::span<const Tensor> inputs, const detail::ConcatRows& rows,
            std::byte* output,  // rows of `pitch` bytes, of which the sum of widths is written
            ThreadPool& pool);

}  // namespace lamina::cpu
