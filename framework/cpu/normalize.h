#pragma once

#include <cstdint>

#include "lamina/base/thread_pool.h"
#include "lamina/images/preprocess.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/format.h"

namespace lamina::cpu {

/// 8-bit pictures [images, pixels, 3] to f32 or bf16 in either layout, by table; bf16 is rounded once.
void normalize(const Activation& activation, const detail::LevelTable& table, const std::uint8_t* rgb, Format to,
               void* output, ThreadPool& pool);

}  // namespace lamina::cpu
