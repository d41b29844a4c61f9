#pragma once

#include "lamina/base/thread_pool.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/format.h"

namespace lamina::cpu {

/// An activation from one format to another: floats of any width, nchw or nhwc. Rounds to nearest even.
void convert(const Activation& activation, Format from, const void* input, Format to, void* output, ThreadPool& pool);

}  // namespace lamina::cpu
