#pragma once

#include <functional>
#include <random>
#include <vector>

#include "lamina/module/attributes.h"
#include "support/expanded.h"
#include "support/problem_data.h"

/// Convolutions and poolings over any number of dimensions, drawn at random, and plain loops over their windows.
namespace lamina::test {

using Numbers = std::vector<std::int64_t>;

/// Every coordinate below the extents, in row-major order.
inline void each(const Numbers& extents, const std::function<void(const Numbers&)>& f) {
  Numbers at(extents.size(), 0);
  for (const std::int64_t extent : extents) {
    if (extent <= 0) return;
  }
  for (;;) {
    f(at);
    std::size_t d = extents.size();
    while (d > 0 && ++at[d - 1] == extents[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

inline std::size_t offset(const Numbers& extents, const Numbers& at) {
  std::int64_t result = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) result = result * extents[d] + at[d];
  return static_cast<std::size_t>(result);
}

struct WindowCase {
  Numbers in = {}, kernel = {}, stride = {}, dilation = {}, begin = {}, end = {}, out = {};
  bool ceil = false;

  Attributes attributes() const {
    Numbers pads = begin;
    pads.insert(pads.end(), end.begin(), end.end());
    return {{"kernel_shape", kernel}, {"strides", stride}, {"dilations", dilation}, {"pads", pads}};
  }
};

/// `deepest`: of any padding; ONNX sets no limit to it.
inline WindowCase draw_windows(std::mt19937& random, std::size_t count, std::int64_t deepest, bool ceil) {
  const auto any = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  WindowCase c = {.ceil = ceil};
  while (c.in.size() < count) {
    const std::int64_t in = any(1, count > 2 ? 6 : 9), k = any(1, 4), s = any(1, 3), d = any(1, 2);
    const std::int64_t b = any(0, deepest), e = any(0, 1) == 0 ? b : any(0, deepest);
    const std::int64_t room = in + b + e - d * (k - 1) - 1;
    if (room < 0) continue;
    std::int64_t out = room / s + 1;
    if (ceil && room % s != 0 && out * s < in + b) ++out;
    c.in.push_back(in), c.kernel.push_back(k), c.stride.push_back(s), c.dilation.push_back(d);
    c.begin.push_back(b), c.end.push_back(e), c.out.push_back(out);
  }
  return c;
}

/// Calls f with each tap of the window at `out` and where it is, which may be outside of the input.
inline void each_tap(const WindowCase& c, const Numbers& out,
                     const std::function<void(const Numbers& tap, const Numbers& at, bool inside)>& f) {
  each(c.kernel, [&](const Numbers& tap) {
    Numbers at(tap.size());
    bool inside = true;
    for (std::size_t d = 0; d < tap.size(); ++d) {
      at[d] = out[d] * c.stride[d] + tap[d] * c.dilation[d] - c.begin[d];
      inside &= at[d] >= 0 && at[d] < c.in[d];
    }
    f(tap, at, inside);
  });
}

inline Shape shape_of(const Numbers& extents) { return Shape(std::span<const std::int64_t>(extents)); }
inline Numbers with(Numbers first, const Numbers& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

inline void expect_close(const Tensor& found, const Shape& shape, const std::vector<double>& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(found.shape(), shape) << what;
  std::vector<Truth> truth;
  for (const double value : expected) truth.push_back({value, tolerance * (1 + std::abs(value))});
  expect_near(found, truth, what);
}

}  // namespace lamina::test
