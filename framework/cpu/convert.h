#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/kernel/operator.h"
#include "lamina/kernel/preparation.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/format.h"

namespace lamina::cpu {

/// An activation from one format to another: floats of any width, nchw or nhwc. Rounds to nearest even.
void convert(const Activation& activation, Format from, const void* input, Format to, void* output, ThreadPool& pool);

/// The operator of images of f32 in nchw by one that reads nhwc, which `prepare` makes for so many of them: the
/// channels of each pixel are brought side by side first. It writes as asked, or nhwc where it cannot do otherwise;
/// then the output is turned back, and for the caches' sake no more images are at work at a time than there are
/// threads.
std::unique_ptr<Operator> through_pixels(
    const Preparation& p, bool turns_back,
    const std::function<std::unique_ptr<Operator>(const Preparation& inner, std::int64_t images)>& prepare);

/// The columns of each of `images` matrices as rows, of elements that nothing has to be computed of.
template <class T>
void turn(std::int64_t images, std::int64_t rows, std::int64_t columns, const T* input, T* output, ThreadPool& pool) {
  constexpr std::int64_t width = 512;
  const std::int64_t across = detail::ceil_div(columns, width);
  pool.parallel_for(images * across, [=](std::int64_t task, int) {
    const std::int64_t image = task / across * rows * columns, first = task % across * width;
    const std::int64_t last = std::min(columns, first + width);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const from = input + image + row * columns;
      T* const to = output + image + row;
      for (std::int64_t column = first; column < last; ++column) to[column * rows] = from[column];
    }
  });
}

}  // namespace lamina::cpu
