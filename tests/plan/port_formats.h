#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lamina/base/error.h"
#include "support/networks.h"

namespace lamina::test {

/// [N, C, H, W] as [N, H, W, C], or back.
template <class T>
Tensor turned(const Tensor& x, bool to_channels_last) {
  const Shape& s = x.shape();
  const std::int64_t rows = to_channels_last ? s[1] : s[1] * s[2], columns = to_channels_last ? s[2] * s[3] : s[3];
  Tensor y(to_channels_last ? Shape{s[0], s[2], s[3], s[1]} : Shape{s[0], s[3], s[1], s[2]}, x.dtype());
  for (std::int64_t n = 0; n < s[0]; ++n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        y.values<T>()[static_cast<std::size_t>((n * columns + c) * rows + r)] =
            x.values<T>()[static_cast<std::size_t>((n * rows + r) * columns + c)];
      }
    }
  }
  return y;
}

inline Tensor turned(const Tensor& x, bool to_channels_last) {
  return x.dtype() == DType::f32   ? turned<float>(x, to_channels_last)
         : x.dtype() == DType::f16 ? turned<half>(x, to_channels_last)
                                   : turned<bfloat16>(x, to_channels_last);
}

/// Within one rounding to the type of `x`, and what another kernel's order of sums makes of f32.
inline void expect_rounded(const Tensor& x, const Tensor& exact, float tolerance) {
  ASSERT_EQ(x.shape(), exact.shape());
  const float rounding = x.dtype() == DType::f32 ? 0 : x.dtype() == DType::f16 ? 0x1p-11f : 0x1p-8f;
  const Tensor wide = x.to(DType::f32);
  for (std::size_t i = 0; i < wide.values<float>().size(); ++i) {
    const float a = wide.values<float>()[i], b = exact.values<float>()[i];
    ASSERT_LE(std::abs(a - b), rounding * std::abs(b) + tolerance * (1 + std::abs(b))) << i;
  }
}

/// What is stored otherwise is rounded once: the values that go in are those that the type has, and the results are the
/// f32 plan's.
inline void expect_ports_rounded_once(Device device, float tolerance) {
  const Graph graph = branching_network();
  const Tensor numbers = random_tensor({2, 3, 16, 16}, 5);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      const Format format = {dtype, layout};
      SCOPED_TRACE(detail::concat(format));
      const bool channels_last = layout == Layout::nhwc;
      Plan plan = graph.compile({.device = device, .batch = 2, .input_format = format, .output_format = format});
      Plan plain = graph.compile({.batch = 2});
      EXPECT_EQ(plan.input_shapes()[0], (channels_last ? Shape{2, 16, 16, 3} : Shape{2, 3, 16, 16}));
      EXPECT_EQ(plan.output_shapes()[0].rank(), 2u);
      EXPECT_EQ(plan.output_shapes()[1], (channels_last ? Shape{2, 16, 16, 2} : Shape{2, 2, 16, 16}));
      EXPECT_EQ(plan.input_dtypes()[0], dtype);
      EXPECT_EQ(plan.output_dtypes()[1], dtype);
      const Tensor rounded = numbers.to(dtype);
      const Tensor given = channels_last ? turned(rounded, true) : rounded;
      const auto expected = plain.run(std::vector<Tensor>{rounded.to(DType::f32)});
      const auto found = plan.run(std::vector<Tensor>{given});
      expect_rounded(found[0], expected[0], tolerance);
      expect_rounded(channels_last ? turned(found[1], false) : found[1], expected[1], tolerance);
      const Tensor first = found[0].clone();
      std::vector<Tensor> targets = {Tensor(plan.output_shapes()[0], dtype), Tensor(plan.output_shapes()[1], dtype)};
      plan.run_into(std::vector<Tensor>{given}, targets);
      EXPECT_TRUE(same_bits(targets[0], first));
      // Fewer images than the batch.
      const auto one = plan.run(std::vector<Tensor>{given.slice(0, 1)});
      EXPECT_TRUE(same_bits(one[0], first.slice(0, 1)));
    }
  }
}

}  // namespace lamina::test
