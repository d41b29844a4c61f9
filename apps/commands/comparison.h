#pragma once

#include <lamina/lamina.h>

namespace lamina::app {

struct Tolerance {
  double rtol = 0;
  double atol = 0;  // a fraction of the expected tensor's root mean square
};

struct Comparison {
  double rms = 0;        // root mean square of what was expected
  double max_error = 0;  // |actual - expected|
  std::int64_t bad = 0;  // elements outside the tolerance
  std::int64_t first_bad = -1;

  double error_of_rms() const { return max_error == 0 ? 0 : max_error / rms; }
};

/// An element near 0 is a sum of large terms that cancel: its rounding error is in proportion to them, not to itself,
/// and their size shows in the other elements. So the absolute tolerance is a fraction of the tensor's typical value.
/// docs/inside/precision.md has the measurements.
Comparison compare(const Tensor& actual,    // f32
                   const Tensor& expected,  // f64
                   const Tolerance& tolerance);

}  // namespace lamina::app
