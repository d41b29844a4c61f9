#pragma once

#include <cstdint>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// The mean over all pixels of each channel, nhwc, in the memory of the current device. f32, f16 or bf16.
void global_average(DType dtype, std::int64_t images, std::int64_t pixels, std::int64_t channels,
                    const void* input,  // [images, pixels, channels]
                    void* output,       // [images, channels]
                    Stream stream);

}  // namespace lamina::cuda
