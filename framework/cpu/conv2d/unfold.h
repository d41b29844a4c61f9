#pragma once

#include <cstdint>

#include "lamina/kernel/conv_geometry.h"

namespace lamina::cpu {

/// Writes the columns of `count` consecutive output pixels, from pixel `first` of the row-major [OH, OW] map on:
///   columns[k * pitch + p] = the input value that weight k meets at output pixel first + p, 0 on padding,
/// where k runs over [C / groups, KH, KW] and `image` is the group's first channel [C / groups, H, W].
void unfold(const ConvGeometry& geometry, const float* image, std::int64_t first, int count, float* columns,
            std::int64_t pitch);

}  // namespace lamina::cpu
