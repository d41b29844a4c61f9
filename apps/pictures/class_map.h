#pragma once

#include <lamina/lamina.h>

#include <cstdint>
#include <vector>

#include "lamina/base/thread_pool.h"

namespace lamina::app {

/// Which class each pixel of a photograph belongs to.
struct ClassMap {
  static constexpr std::uint16_t unseen = 0xFFFF;  ///< of the pixels that the network was not shown
  static constexpr std::int64_t max_classes = unseen;

  int width = 0, height = 0;
  std::vector<std::uint16_t> classes;  // [height, width]

  /// Pixels of each of so many classes.
  std::vector<std::int64_t> counts(std::int64_t classes_in_all) const;
};

/// What a network is shown of one axis of a photograph: pixels from `begin` on, which may lie outside of it where the
/// input is padded.
struct Seen {
  double begin = 0, extent = 0;
};

/// The class of the highest score of each pixel, the lower number among equals. The scores are resized to the part of
/// the photograph that they are about, bilinear with half-pixel centres as PyTorch's interpolate(align_corners=False)
/// does it; a row at a time, so that no more memory is taken than for the result. NaN is less than any score.
/// Throws Error if a pixel has no score that is a number.
ClassMap class_map(const Tensor& scores,  // f32 [1, classes, h, w] on the CPU, 1 to `max_classes` of them
                   Seen x, Seen y, int width, int height, ThreadPool& threads);

}  // namespace lamina::app
