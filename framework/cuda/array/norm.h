#pragma once

#include <cstddef>
#include <cstdint>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// What a NormProblem says, with its parameters on the device; null: 1, or 0.
struct NormSettings {
  std::int64_t length = 1;
  float eps = 1e-5f;
  bool centred = true;
  std::int64_t inner = 1, channels = 1;
  const float* scale = nullptr;  // [channels]
  const float* shift = nullptr;  // [channels]
};

/// Rows of f32, f16 or bf16 in the memory of CUDA device `device`, each normalised. Arithmetic is in f32. The output
/// may be the input.
void norm(int device, const NormSettings& settings, DType dtype,
          const void* input,  // [count / length, length]
          void* output,       // [count / length, length]
          std::int64_t count,
          void* workspace,  // norm_workspace() bytes
          Stream stream);
std::size_t norm_workspace(std::int64_t length, std::int64_t count);

}  // namespace lamina::cuda
