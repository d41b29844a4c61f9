#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lamina/detect/detector.h"
#include "lamina/detect/letterbox.h"

namespace lamina::detail {

/// What masks are mixed of: [count, height, width], planes a fraction of the input's size.
struct Prototypes {
  const float* data = nullptr;
  int count = 0, height = 0, width = 0;
};

/// The pixels within `box` where the mixture of prototypes is above 0, resized in two bilinear steps: to where whole
/// pixels of padding can be cut off, and to the photograph.
Mask mask_of(const Prototypes& prototypes, std::span<const float> shares, const Box& box, const Letterbox& letterbox);

}  // namespace lamina::detail
