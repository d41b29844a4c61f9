#pragma once

#include <cstdint>
#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cpu {

/// Bytes of an input's row, and from row to row.
struct JoinedRows {
  std::int64_t width = 0, pitch = 0;
};

/// Rows side by side: row r of the output is row r of every input, one after the other. What lies there already is left
/// alone.
void concat(std::span<const Tensor> inputs, std::span<const JoinedRows> parts,
            std::byte* output,  // [rows, pitch] bytes, of which the sum of widths is written
            std::int64_t rows, std::int64_t pitch, ThreadPool& pool);

}  // namespace lamina::cpu
