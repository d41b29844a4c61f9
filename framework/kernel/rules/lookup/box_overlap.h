#pragma once

#include "lamina/kernel/rules/host_device.h"

namespace lamina::detail {

/// A box of NonMaxSuppression.
struct OverlapBox {
  float y0 = 0, x0 = 0, y1 = 0, x1 = 0;

  OverlapBox() = default;
  /// (y, x, y, x) of two corners, or (x, y, width, height) around the centre.
  LAMINA_HOST_DEVICE OverlapBox(const float* b, bool centred) {
    if (centred) {
      x0 = b[0] - b[2] / 2, x1 = b[0] + b[2] / 2, y0 = b[1] - b[3] / 2, y1 = b[1] + b[3] / 2;
    } else {
      y0 = smaller(b[0], b[2]), y1 = larger(b[2], b[0]), x0 = smaller(b[1], b[3]), x1 = larger(b[3], b[1]);
    }
  }
  LAMINA_HOST_DEVICE float area() const { return (x1 - x0) * (y1 - y0); }
  LAMINA_HOST_DEVICE bool overlaps(const OverlapBox& other, float threshold) const {
    const float width = smaller(x1, other.x1) - larger(x0, other.x0);
    const float height = smaller(y1, other.y1) - larger(y0, other.y0);
    const float both = width * height, all = area() + other.area() - both;
    if (!(width > 0 && height > 0) || both <= 0 || area() <= 0 || other.area() <= 0 || all <= 0) return false;
    return both / all > threshold;
  }

 private:
  LAMINA_HOST_DEVICE static float smaller(float a, float b) { return b < a ? b : a; }
  LAMINA_HOST_DEVICE static float larger(float a, float b) { return a < b ? b : a; }
};

}  // namespace lamina::detail
