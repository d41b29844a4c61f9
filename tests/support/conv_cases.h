#pragma once

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "lamina/kernel/conv_geometry.h"

namespace lamina::test {

/// A convolution in few words; `geometry_of` computes the rest.
struct ConvCase {
  std::int64_t batch = 1;
  int in_channels = 1, height = 1, width = 1;
  int out_channels = 1;
  int kernel_height = 1, kernel_width = 1;
  int stride_height = 1, stride_width = 1;
  int padding_height = 0, padding_width = 0;
  int dilation_height = 1, dilation_width = 1;
  int groups = 1;
  int more_height = 0, more_width = 0;  ///< zeros behind the image beside the padding
};

inline ConvGeometry geometry_of(const ConvCase& c) {
  const auto out = [](int in, int padding, int dilation, int kernel, int stride, int more) {
    return (in + 2 * padding + more - dilation * (kernel - 1) - 1) / stride + 1;
  };
  return {
      .batch = c.batch,
      .in_channels = c.in_channels,
      .in_height = c.height,
      .in_width = c.width,
      .out_channels = c.out_channels,
      .out_height = out(c.height, c.padding_height, c.dilation_height, c.kernel_height, c.stride_height, c.more_height),
      .out_width = out(c.width, c.padding_width, c.dilation_width, c.kernel_width, c.stride_width, c.more_width),
      .kernel_height = c.kernel_height,
      .kernel_width = c.kernel_width,
      .stride_height = c.stride_height,
      .stride_width = c.stride_width,
      .padding_height = c.padding_height,
      .padding_width = c.padding_width,
      .dilation_height = c.dilation_height,
      .dilation_width = c.dilation_width,
      .groups = c.groups};
}

/// "n2 3x11x13 -> 8, k 3x5, s 1x2, p 1x0, d 1x1, g 1"
inline std::string describe(const ConvGeometry& g) {
  std::ostringstream text;
  text << 'n' << g.batch << ' ' << g.in_channels << 'x' << g.in_height << 'x' << g.in_width << " -> " << g.out_channels
       << ", k " << g.kernel_height << 'x' << g.kernel_width << ", s " << g.stride_height << 'x' << g.stride_width
       << ", p " << g.padding_height << 'x' << g.padding_width << ", d " << g.dilation_height << 'x' << g.dilation_width
       << ", g " << g.groups;
  return text.str();
}

/// Square kernel, stride, padding and dilation, for short.
inline ConvCase square(std::int64_t batch, int channels, int height, int width, int filters, int kernel, int stride = 1,
                       int padding = 0, int dilation = 1, int groups = 1) {
  return {batch,  channels, height,  width,   filters,  kernel,   kernel,
          stride, stride,   padding, padding, dilation, dilation, groups};
}

/// Small geometries around every edge: each is a case that some plausible kernel gets wrong.
inline std::vector<ConvGeometry> awkward_geometries() {
  std::vector<ConvCase> cases = {
      // the smallest of everything
      square(1, 1, 1, 1, 1, 1),
      square(3, 1, 1, 1, 5, 1),
      square(1, 7, 1, 1, 1, 1),
      square(1, 1, 1, 1, 1, 3, 1, 1),
      square(2, 1, 5, 1, 1, 1),
      square(2, 1, 1, 5, 1, 1),
      // 1x1 kernels: channels around tiles
      square(1, 16, 8, 8, 8, 1),
      square(2, 33, 7, 9, 17, 1),
      square(1, 64, 5, 5, 65, 1),
      square(2, 31, 6, 6, 9, 1, 2),
      square(1, 300, 3, 3, 12, 1),
      // 3x3 as networks have it
      square(1, 3, 8, 8, 8, 3, 1, 1),
      square(2, 8, 13, 13, 16, 3, 1, 1),
      square(1, 17, 14, 15, 33, 3, 1, 1),
      square(1, 64, 13, 13, 48, 3, 1, 1),
      square(2, 5, 9, 7, 3, 3, 2, 1),
      square(1, 4, 12, 12, 4, 3, 1, 0),
      // widths and pixel counts around warps and tiles
      square(1, 2, 6, 31, 3, 3, 1, 1),
      square(1, 2, 6, 32, 3, 3, 1, 1),
      square(1, 2, 6, 33, 3, 3, 1, 1),
      square(1, 1, 16, 16, 8, 1),
      square(1, 1, 1, 127, 8, 1),
      square(1, 1, 1, 128, 8, 1),
      square(1, 1, 1, 129, 8, 1),
      square(1, 1, 1, 255, 9, 3, 1, 1),
      square(1, 1, 1, 257, 7, 3, 1, 1),
      square(1, 3, 67, 5, 24, 3, 1, 1),
      square(1, 2, 3, 521, 4, 3, 1, 1),
      // filters around 8, 32, 48, 64
      square(1, 3, 9, 9, 7, 3, 1, 1),
      square(1, 3, 9, 9, 31, 3, 1, 1),
      square(1, 3, 9, 9, 47, 3, 1, 1),
      square(1, 3, 9, 9, 49, 3, 1, 1),
      square(1, 3, 9, 9, 97, 3, 1, 1),
      // large kernels and strides
      square(2, 3, 35, 37, 10, 11, 4, 2),
      square(1, 3, 64, 64, 33, 7, 2, 3),
      square(1, 3, 40, 40, 16, 16, 16),
      square(1, 2, 40, 41, 5, 3, 7),
      square(1, 1, 20, 20, 2, 20),
      square(1, 2, 5, 5, 3, 9, 1, 2),
      square(1, 1, 33, 65, 2, 31, 1, 15),
      square(1, 1, 150, 160, 3, 140, 3, 10),
      square(1, 2, 4, 300, 2, 2, 5),
      // padding as large as the kernel and larger: outputs that see only zeros
      square(1, 2, 4, 4, 3, 3, 1, 3),
      square(2, 3, 5, 6, 4, 2, 2, 4),
      square(1, 1, 1, 1, 2, 1, 1, 3),
      // dilation
      square(1, 3, 19, 19, 5, 3, 1, 2, 2),
      square(1, 2, 30, 31, 4, 3, 2, 4, 5),
      square(1, 4, 23, 29, 8, 5, 3, 6, 3),
      square(1, 2, 60, 60, 3, 3, 1, 0, 25),
      // taps that see the image from few places, or from none
      square(2, 20, 14, 15, 40, 3, 1, 6, 6),
      square(1, 136, 9, 11, 70, 3, 1, 8, 8),
      square(1, 34, 7, 9, 40, 3, 1, 8, 8),
      square(2, 5, 9, 9, 7, 3, 1, 12, 12),
      square(1, 24, 21, 23, 32, 5, 2, 12, 6, 2),
      // groups: a few, depthwise, depthwise with a multiplier
      square(2, 6, 10, 10, 9, 3, 1, 1, 1, 3),
      square(1, 8, 11, 13, 8, 3, 1, 1, 1, 8),
      square(2, 5, 12, 12, 15, 5, 2, 2, 1, 5),
      square(1, 32, 7, 7, 64, 1, 1, 0, 1, 4),
      square(1, 48, 9, 9, 32, 5, 1, 2, 1, 2),
      square(3, 40, 16, 16, 40, 3, 2, 1, 2, 40),
      // batch
      square(17, 3, 6, 5, 4, 3, 1, 1),
      square(130, 1, 2, 2, 3, 2),
      // a long reduction
      square(1, 520, 4, 4, 6, 3, 1, 1),
      square(1, 2048, 1, 1, 11, 1),
  };
  // nothing square at all
  cases.push_back({2, 3, 11, 17, 5, 3, 5, 2, 1, 0, 3, 1, 2, 1});
  cases.push_back({1, 4, 29, 8, 6, 7, 1, 3, 2, 2, 0, 2, 1, 2});
  cases.push_back({1, 3, 5, 90, 10, 1, 11, 1, 4, 0, 2, 1, 1, 1});
  cases.push_back({2, 2, 70, 3, 9, 11, 2, 5, 1, 4, 1, 1, 1, 1});
  cases.push_back({1, 6, 8, 40, 12, 2, 3, 1, 9, 1, 5, 3, 7, 3});
  cases.push_back({1, 1, 2, 600, 3, 2, 129, 1, 2, 1, 64, 1, 1, 1});
  std::vector<ConvGeometry> result;
  for (const ConvCase& c : cases) result.push_back(geometry_of(c));
  return result;
}

/// AlexNet's first layer, with 96 filters as first published or 64 as torchvision has it.
inline ConvGeometry alexnet_conv1(std::int64_t batch, int filters = 96) {
  return geometry_of(square(batch, 3, 224, 224, filters, 11, 4, 2));
}

/// Values drawn afresh from a seed.
enum class Values {
  mixed,     ///< normal, both signs
  positive,  ///< uniform in [0, 1): rounding errors add up
  equal,     ///< one value everywhere, as on a flat image: every addition rounds the same way
};

inline std::vector<float> draw(std::int64_t count, Values values, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
  std::vector<float> result(static_cast<std::size_t>(count));
  const float one = 0.5f + uniform(generator);
  for (float& x : result) {
    x = values == Values::mixed ? normal(generator) : values == Values::positive ? uniform(generator) : one;
  }
  return result;
}

}  // namespace lamina::test
