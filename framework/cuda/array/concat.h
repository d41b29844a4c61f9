#pragma once

#include <cstdint>
#include <span>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {

/// An input's rows, in bytes.
struct JoinedRows {
  std::int64_t width = 0;  ///< of what is taken of each
  std::int64_t pitch = 0;  ///< from one to the next
};

/// Rows of bytes beside each other: input i [rows, parts[i].width], output [rows, sum of widths], whose rows lie
/// `pitch` bytes apart, in the memory of CUDA device `device`. What is where it belongs already is left alone. One
/// launch for up to 32 inputs beside each other.
void concat(int device, std::span<const Tensor> inputs, std::span<const JoinedRows> parts, std::int64_t rows,
            void* output, std::int64_t pitch, Stream stream);

}  // namespace lamina::cuda
