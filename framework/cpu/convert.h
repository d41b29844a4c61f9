#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/format.h"

namespace lamina::cpu {

/// An activation from one format to another, nchw or nhwc: floats of any width, rounded to nearest even, or elements of
/// one byte or four as they are.
void convert(const Activation& activation, Format from, const void* input, Format to, void* output, ThreadPool& pool);

/// The operator of images of f32 in nchw by one that reads nhwc, which `prepare` makes for so many of them: the
/// channels of each pixel are brought side by side first. It writes as asked, or nhwc where it cannot do otherwise;
/// then the output is turned back, and for the caches' sake no more images are at work at a time than there are
/// threads.
std::unique_ptr<Operator> through_pixels(
    const Preparation& p, bool turns_back,
    const std::function<std::unique_ptr<Operator>(const Preparation& inner, std::int64_t images)>& prepare);

}  // namespace lamina::cpu
