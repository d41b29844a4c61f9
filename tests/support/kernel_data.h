#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "lamina/kernel/precision.h"
#include "lamina/tensor/format.h"
#include "support/conv_cases.h"

/// What kernels of a GPU are tested on: geometries, values drawn from seeds, and these as activations are stored.
namespace lamina::test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// One convolution: `kernel`, `stride`, `padding` and `dilation` as {height, width}.
struct Case {
  std::int64_t batch = 1;
  int in = 1, height = 1, width = 1, out = 1;
  int kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  int groups = 1;
  int more[2] = {0, 0};  ///< zeros behind the image beside the padding
};

inline ConvGeometry geometry_of(const Case& c) {
  return geometry_of(ConvCase{c.batch, c.in, c.height, c.width, c.out, c.kernel[0], c.kernel[1], c.stride[0],
                              c.stride[1], c.padding[0], c.padding[1], c.dilation[0], c.dilation[1], c.groups,
                              c.more[0], c.more[1]});
}

/// As `describe` says it: "n2 3x11x13 -> 8, k 3x5, s 2, p 1x0, d 1, g 1" is two images of 3 channels of 11 x 13 pixels
/// and 8 filters. What is left out is one, or a padding of nothing; one number is for both directions. "b 1": more
/// zeros behind the image.
inline Case conv(const std::string& text) {
  Case c;
  std::istringstream in(text);
  std::string arrow;
  char x = 0;
  if (text.front() == 'n') in >> x >> c.batch;
  in >> c.in >> x >> c.height >> x >> c.width >> arrow >> c.out;
  for (char comma = 0, key = 0; in >> comma >> key;) {
    int* const value = key == 'k'   ? c.kernel
                       : key == 's' ? c.stride
                       : key == 'p' ? c.padding
                       : key == 'd' ? c.dilation
                       : key == 'b' ? c.more
                                    : &c.groups;
    in >> value[0];
    if (key != 'g') value[1] = value[0];
    if (in.peek() == 'x') in >> x >> value[1];
  }
  return c;
}

/// Input, weights and bias of one convolution, as the layers have them.
struct ConvData {
  std::vector<float> x;              // [N, C, H, W]
  std::vector<float> w;              // [OC, C / groups, KH, KW]
  std::vector<float> b;              // [OC]
  std::vector<float> residual = {};  // [N, OC, OH, OW], what an epilogue adds
};

using Draw = std::function<float(std::mt19937&)>;

inline ConvData draw(const ConvGeometry& g, const Draw& x, const Draw& w, unsigned seed) {
  std::mt19937 random(seed);
  ConvData data;
  data.x.resize(static_cast<std::size_t>(g.input_size()));
  data.w.resize(static_cast<std::size_t>(g.weight_size()));
  data.b.resize(static_cast<std::size_t>(g.out_channels));
  for (float& v : data.x) v = x(random);
  for (float& v : data.w) v = w(random);
  for (float& v : data.b) v = w(random);
  return data;
}

inline ConvData draw(const ConvGeometry& g, Values values) {
  return {draw(g.input_size(), values, 1), draw(g.weight_size(), values, 2), draw(g.out_channels, values, 3)};
}

inline float normal(std::mt19937& random) { return std::normal_distribution<float>()(random); }
inline float positive(std::mt19937& random) { return std::uniform_real_distribution<float>(0.5f, 1.0f)(random); }
/// Magnitudes from 1e-18 to 1e18 side by side.
inline float mixed(std::mt19937& random) {
  return normal(random) * std::pow(10.0f, std::uniform_real_distribution<float>(-18, 18)(random));
}
inline Draw constant(float value) {
  return [value](std::mt19937&) { return value; };
}
inline Draw scaled(const Draw& of, float factor) {
  return [of, factor](std::mt19937& random) { return of(random) * factor; };
}

/// What the precision makes of an operand before the arithmetic starts.
inline float rounded(float value, Precision precision) {
  if (precision == Precision::fp16) return to_float(to_half(value));
  if (precision == Precision::bf16) return to_float(to_bfloat16(value));
  return value;
}

inline ConvData rounded(ConvData data, Precision precision) {
  for (float& v : data.x) v = rounded(v, precision);
  for (float& v : data.w) v = rounded(v, precision);
  return data;
}

/// Visits the elements of an activation in nchw order, with their place in memory.
template <class Visit>
void for_each_place(const Shape& shape, Layout layout, Visit&& visit) {
  const auto numel = static_cast<std::size_t>(shape.numel());
  const bool turned = layout == Layout::nhwc;
  const auto channels = static_cast<std::size_t>(turned ? shape[1] : 1);
  const auto pixels = static_cast<std::size_t>(turned ? shape[2] * shape[3] : 1);
  for (std::size_t i = 0; i < numel; ++i) {
    const std::size_t image = i / (channels * pixels), channel = i / pixels % channels, pixel = i % pixels;
    visit(i, turned ? (image * pixels + pixel) * channels + channel : i);
  }
}

/// nchw values as they are stored in that format.
inline std::vector<unsigned char> to_bytes(const std::vector<float>& values, const Shape& shape, Format format) {
  const std::size_t size = size_of(format.dtype);
  std::vector<unsigned char> bytes(values.size() * size);
  for_each_place(shape, format.layout, [&](std::size_t i, std::size_t place) {
    if (format.dtype == DType::f32) {
      std::memcpy(&bytes[place * size], &values[i], size);
    } else {
      const std::uint16_t bits = format.dtype == DType::f16 ? to_half(values[i]).bits : to_bfloat16(values[i]).bits;
      std::memcpy(&bytes[place * size], &bits, size);
    }
  });
  return bytes;
}

/// The other way round.
inline std::vector<float> to_values(const std::vector<unsigned char>& bytes, const Shape& shape, Format format) {
  const std::size_t size = size_of(format.dtype);
  std::vector<float> values(bytes.size() / size);
  for_each_place(shape, format.layout, [&](std::size_t i, std::size_t place) {
    if (format.dtype == DType::f32) {
      std::memcpy(&values[i], &bytes[place * size], size);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, &bytes[place * size], size);
      values[i] = format.dtype == DType::f16 ? to_float(half{bits}) : to_float(bfloat16{bits});
    }
  });
  return values;
}

}  // namespace lamina::test
