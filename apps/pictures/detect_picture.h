#pragma once

#include <lamina/lamina.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lamina/detect/detector.h"

namespace lamina::app {

/// Which of these points of a skeleton are joined: those of COCO's seventeen of a person; none of others.
std::span<const std::pair<int, int>> bones_of(std::span<const Keypoint> points);

/// A photograph with what was found in it.
struct DetectPicture {
  Image photo;
  std::vector<Detection> found;    ///< best first
  std::vector<std::string> names;  ///< of each
};

/// The photograph, things in the colours of their classes: pixels that a mask holds, a rectangle around each, its name
/// and score above it, or where no other is, skeletons. Small photographs are drawn larger.
Image draw(DetectPicture picture);

}  // namespace lamina::app
