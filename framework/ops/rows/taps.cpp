#include "lamina/ops/rows/taps.h"

#include <algorithm>
#include <cmath>

#include "lamina/ops/parts.h"

namespace lamina::detail {
namespace {

double weight_at(const TapFilter& filter, double distance) {
  const double x = std::abs(distance), a = filter.a;
  if (!filter.cubic) return std::max(1 - x, 0.0);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

}  // namespace

ResampleProblem::Axis make_taps(const Expansion& e, const TapFilter& filter, int dim, const std::vector<double>& places,
                                std::int64_t extent) {
  const double reach = (filter.cubic ? 2 : 1) / filter.scale;
  if (!(reach * 2 + 2 <= static_cast<double>(longest_list)) || extent > longest_list)
    e.refuse("an extent of ", extent, " is too large");
  const auto first = static_cast<std::int64_t>(std::floor(-reach)) + 1;
  const std::int64_t taps = 2 - 2 * first;
  if (taps * static_cast<std::int64_t>(places.size()) > longest_list) e.refuse("its output is too large");
  ResampleProblem::Axis axis = {.dim = dim, .taps = static_cast<int>(taps)};
  std::vector<double> weights(static_cast<std::size_t>(taps));
  for (const double place : places) {
    const double left = std::floor(place);
    double sum = 0;
    for (std::int64_t t = 0; t < taps; ++t) {
      const double at = left + static_cast<double>(first + t), last = static_cast<double>(extent - 1);
      const bool counts = !filter.exclude_outside || (at >= 0 && at <= last);
      sum += weights[static_cast<std::size_t>(t)] = counts ? weight_at(filter, filter.scale * (at - place)) : 0;
      axis.indices.push_back(static_cast<int>(std::clamp(at, 0.0, last)));
    }
    const bool normalised = (filter.scale < 1 || filter.exclude_outside) && sum != 0;
    for (const double weight : weights) axis.weights.push_back(static_cast<float>(normalised ? weight / sum : weight));
  }
  return axis;
}

std::int64_t nearest(const Expansion& e, const std::string& rule, double place, std::int64_t extent) {
  // Scales are quotients, rounded: what lies that close to an element, or halfway, is meant to be there.
  const double halves = std::round(2 * place) / 2;
  if (std::abs(place - halves) <= 0x1p-20 * std::max(1.0, std::abs(place))) place = halves;
  const double left = std::floor(place), part = place - left;
  bool right = false;
  if (rule == "round_prefer_floor") {
    right = part > 0.5;
  } else if (rule == "round_prefer_ceil") {
    right = part >= 0.5;
  } else if (rule == "ceil") {
    right = part > 0;
  } else {
    require_one_of(e, "nearest_mode", rule, {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"});
  }
  return static_cast<std::int64_t>(std::clamp(left + (right ? 1 : 0), 0.0, static_cast<double>(extent - 1)));
}

}  // namespace lamina::detail
