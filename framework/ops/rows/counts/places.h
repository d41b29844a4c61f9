#pragma once

#include <string>

#include "lamina/ops/expansion.h"

/// Elements along one axis at places that a run computes, as it makes what decides them (docs/inside/ops.md).
namespace lamina::detail {

/// The part of an axis from one place to another, as ONNX's Slice counts them, by steps.
int counted_slice(Expansion& e, int x, int axis, const Expansion::Number& start, const Expansion::Number& end,
                  std::int64_t step);

/// Part `which` along an axis, of sizes that a run makes: all of them together must be there.
int counted_part(Expansion& e, int x, int axis, const Expansion::Sizes& sizes, std::int64_t which);

/// Padded, or cut where that is negative, as ONNX's Pad does it in that mode.
int counted_pad(Expansion& e, int x, int axis, const Expansion::Number& before, const Expansion::Number& after,
                const std::string& mode, double fill);

/// How an axis is resized, as ONNX's Resize does it: by a scale, or to so many elements.
struct CountedResize {
  std::string mode, transformation, nearest;
  double cubic_a = -0.75;
  int scale = -1;        ///< f64 [1]; -1: that of the extents
  Expansion::Number to;  ///< how many elements
};
int counted_resize(Expansion& e, int x, int axis, const CountedResize& how);

}  // namespace lamina::detail
