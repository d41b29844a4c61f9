#pragma once

#include <cstdint>
#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cpu {

/// Rows side by side: row r of the output is row r of every input, one after the other.
void concat(std::span<const Tensor> inputs,        // [rows, widths[i]] bytes
            std::span<const std::int64_t> widths,  // in bytes
            std::byte* output,                     // [rows, the sum of widths] bytes
            std::int64_t rows, ThreadPool& pool);

}  // namespace lamina::cpu
