#pragma once

#include <string>
#include <vector>

#include "lamina/ops/expansion.h"

/// Which elements of the input an output element of a resized dimension is made of.
namespace lamina::detail {

/// How much an element counts by its distance: a line from 1 to 0, or Keys' cubic.
struct TapFilter {
  bool cubic = false;
  double a = -0.75;              ///< of the cubic
  double scale = 1;              ///< below 1: the filter is that much wider, so that every element counts
  bool exclude_outside = false;  ///< elements beyond the edge count nothing; else the edge's stand for them
};

/// The taps of output elements that lie at `places` of an input dimension of `extent`.
ResampleProblem::Axis make_taps(const Expansion& e, const TapFilter& filter, int dim, const std::vector<double>& places,
                                std::int64_t extent);

/// The element that stands for a place, by one of ONNX's four rules.
std::int64_t nearest(const Expansion& e, const std::string& rule, double place, std::int64_t extent);

}  // namespace lamina::detail
