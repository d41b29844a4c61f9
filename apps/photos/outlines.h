#pragma once

#include <vector>

#include "lamina/detect/detector.h"

namespace lamina::app {

/// Around one part of a mask: x and y of each corner in pixels, clockwise, the last joined to the first.
using Outline = std::vector<float>;

/// The outlines of a mask's parts, the largest first, along the edges of pixels and nowhere off them by more than one.
/// Parts that touch at corners alone are apart, holes are passed over.
std::vector<Outline> outlines_of(const Mask& mask);

/// All parts as one outline, joined by lines that are walked to and fro, which is how YOLO has them. Empty where the
/// mask is.
Outline as_one(const std::vector<Outline>& parts);

}  // namespace lamina::app
