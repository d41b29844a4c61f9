#pragma once

#include <cstdint>

#include "lamina/base/thread_pool.h"
#include "lamina/images/preprocess.h"
#include "lamina/tensor/activation.h"

namespace lamina::cpu {

/// 8-bit pictures to f32, by table.
void normalize(const Activation& activation, const detail::LevelTable& table,
               const std::uint8_t* rgb,  // [images, pixels, 3]
               float* output,            // [images, 3, pixels]
               ThreadPool& pool);

}  // namespace lamina::cpu
