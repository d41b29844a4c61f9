// Taps that are never inside of the image are left out, and nothing else changes.

#include "lamina/kernel/rules/live_window.h"

#include <algorithm>

#include "support/contract.h"

namespace lamina::test::live_window_test {
namespace {

using detail::live_window;
using detail::LiveWindow;

int outputs(int in, int padding, int dilation, int kernel, int stride) {
  const int room = in + 2 * padding - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

/// A geometry along the height, one column wide.
ConvGeometry side(int in, int kernel, int stride, int padding, int dilation) {
  return geometry_of({.height = in,
                      .kernel_height = kernel,
                      .stride_height = stride,
                      .padding_height = padding,
                      .dilation_height = dilation});
}

bool is_live(const ConvGeometry& g, int tap) {
  for (int o = 0; o < g.out_height; ++o) {
    const int row = o * g.stride_height - g.padding_height + tap * g.dilation_height;
    if (row >= 0 && row < g.in_height) return true;
  }
  return false;
}

TEST(LiveWindow, IsTheSmallestThatHasAllLiveTapsAndTheSameOutputs) {
  int smaller = 0;
  for (int in = 1; in <= 7; ++in) {
    for (int code = 0; code < 5 * 3 * 9 * 7; ++code) {
      const int kernel = code % 5 + 1, stride = code / 5 % 3 + 1, padding = code / 15 % 9, dilation = code / 135 + 1;
      if (outputs(in, padding, dilation, kernel, stride) < 1) continue;
      const ConvGeometry g = side(in, kernel, stride, padding, dilation);
      const LiveWindow found = live_window(g);
      const ConvGeometry& part = found.geometry;
      ASSERT_EQ(part.padding_height, padding - found.first_row * dilation) << describe(g);
      ASSERT_GE(part.padding_height, 0) << describe(g);
      ASSERT_EQ(outputs(in, part.padding_height, dilation, part.kernel_height, stride), g.out_height) << describe(g);
      ConvGeometry rest = part;
      rest.kernel_height = kernel, rest.padding_height = padding;
      ASSERT_EQ(rest, g);
      int first = kernel, last = -1;
      for (int tap = 0; tap < kernel; ++tap) {
        if (is_live(g, tap)) first = std::min(first, tap), last = tap;
      }
      if (last < 0) {
        ASSERT_EQ(part, g);
        continue;
      }
      int smallest = kernel;
      for (int from = 0; from <= first; ++from) {
        for (int to = last; to < kernel && padding - from * dilation >= 0; ++to) {
          const int taps = to - from + 1;
          if (outputs(in, padding - from * dilation, dilation, taps, stride) == g.out_height) {
            smallest = std::min(smallest, taps);
          }
        }
      }
      ASSERT_LE(found.first_row, first) << describe(g);
      ASSERT_GE(found.first_row + part.kernel_height, last + 1) << describe(g);
      ASSERT_EQ(part.kernel_height, smallest) << describe(g);
      if (stride == 1 && 2 * padding == dilation * (kernel - 1)) {
        ASSERT_EQ(smallest, last - first + 1) << describe(g);
      }
      smaller += smallest < kernel;
    }
  }
  EXPECT_GT(smaller, 500);
}

TEST(SeenTaps, AreThoseThatSomeOutputSees) {
  for (int code = 0; code < 7 * 5 * 3 * 9 * 7; ++code) {
    const int in = code % 7 + 1, kernel = code / 7 % 5 + 1, stride = code / 35 % 3 + 1, padding = code / 105 % 9;
    const int dilation = code / 945 + 1;
    if (outputs(in, padding, dilation, kernel, stride) < 1) continue;
    const ConvGeometry g = geometry_of(square(1, 1, in, in, 1, kernel, stride, padding, dilation));
    const auto sees = [&](int output, int tap) {
      const int place = output * stride - padding + tap * dilation;
      return place >= 0 && place < in;
    };
    int next = 0;
    for (const detail::SeenTaps& columns : detail::seen_columns(g)) {
      ASSERT_EQ(columns.begin, next) << describe(g);
      for (; next < columns.end; ++next) {
        for (int tap = 0; tap < kernel; ++tap) {
          ASSERT_EQ(sees(next, tap), tap >= columns.first_tap && tap < columns.last_tap) << describe(g);
        }
      }
    }
    ASSERT_EQ(next, g.out_width) << describe(g);
    for (int begin = 0; begin < g.out_height; ++begin) {
      for (int end = begin + 1; end <= g.out_height; ++end) {
        const detail::SeenTaps rows = detail::seen_by_rows(g, begin, end);
        for (int row = begin; row < end; ++row) {
          for (int tap = 0; tap < kernel; ++tap) {
            ASSERT_TRUE(!sees(row, tap) || (tap >= rows.first_tap && tap < rows.last_tap)) << describe(g);
          }
        }
        ASSERT_TRUE(rows.first_tap >= 0 && rows.taps() >= 0 && rows.last_tap <= kernel) << describe(g);
        const bool one = end == begin + 1 && dilation >= in;  // then no tap between is out
        if (one && rows.taps() > 0) {
          ASSERT_TRUE(sees(begin, rows.first_tap) && sees(begin, rows.last_tap - 1)) << describe(g);
        }
      }
    }
  }
}

TEST(LiveWindow, ComputesTheSame) {
  const auto same = [](int side, int dilation) {
    return geometry_of(square(1, 2, side, side, 3, 3, 1, dilation, dilation));
  };
  std::vector<ConvGeometry> geometries = awkward_geometries();
  for (const ConvGeometry& g : {same(28, 36), same(28, 12), same(1, 1), same(7, 7)}) geometries.push_back(g);
  geometries.push_back(geometry_of(square(1, 2, 2, 2, 3, 3, 2, 1)));
  // One way only, and with groups.
  geometries.push_back(geometry_of({2, 4, 5, 19, 6, 3, 5, 1, 1, 6, 8, 6, 4, 2}));
  for (const ConvGeometry& g : geometries) {
    const LiveWindow window = live_window(g);
    const ConvOperands whole(g, Values::mixed);
    const Tensor weight = detail::live_weights(
        window, Tensor::from(whole.weight, {g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}));
    const auto expected = reference_conv2d(g, whole.input.data(), whole.weight.data(), whole.bias.data());
    const auto found =
        reference_conv2d(window.geometry, whole.input.data(), weight.values<float>().data(), whole.bias.data());
    EXPECT_EQ(found.value, expected.value) << describe(g);
  }
}

TEST(LiveWindow, OfDilationBeyondTheImageIsOneTap) {
  const LiveWindow window = live_window(geometry_of(square(1, 2048, 28, 28, 256, 3, 1, 36, 36)));
  EXPECT_EQ(window.first_row, 1);
  EXPECT_EQ(window.first_column, 1);
  EXPECT_EQ(window.geometry.kernel_height, 1);
  EXPECT_EQ(window.geometry.kernel_width, 1);
  EXPECT_EQ(window.geometry.padding_height, 0);
  EXPECT_EQ(window.geometry.padding_width, 0);
}

}  // namespace
}  // namespace lamina::test::live_window_test
