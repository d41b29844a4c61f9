#pragma once

#include <vector>

#include "lamina/kernel/preparation.h"
#include "lamina/kernel/problems.h"

namespace lamina::detail {

/// Each output of the pixel at its own place.
inline bool is_of_pixels(const ConvGeometry& g) {
  return g.kernel_height == 1 && g.kernel_width == 1 && g.stride_height == 1 && g.stride_width == 1 && !g.is_padded();
}

/// Each output of one pixel and all its channels: strides may leave pixels out, so that it need not be at its own
/// place.
inline bool sees_one_pixel(const ConvGeometry& g) {
  return g.groups == 1 && g.kernel_height == 1 && g.kernel_width == 1 && !g.is_padded();
}

/// Each filter sees the channel of its own number.
inline bool is_depthwise(const ConvGeometry& g) { return g.groups == g.in_channels && g.groups == g.out_channels; }

/// So few channels are no work for tensor cores: a Map multiplies them (kernel/map/map_of.h), in the layout at hand.
inline constexpr int few_channels = 8;

inline bool is_of_few_channels(const ConvGeometry& g) {
  return is_of_pixels(g) && g.groups == 1 && g.in_channels <= few_channels && g.out_channels <= few_channels;
}

/// What kernels that could do it do not take: a Plan would turn layouts then that no reader wants turned.
inline bool turns_few_channels(const ConvGeometry& g, const Preparation& p) {
  return is_of_few_channels(g) && p.input().format.layout != p.output().format.layout;
}

/// Windows that lie side by side and cover whole rows and columns of the image: patches, as vision transformers begin.
inline bool is_patches(const ConvGeometry& g) {
  const auto side_by_side = [](int in, int kernel, int stride, int dilation) {
    return kernel > 1 && stride == kernel && dilation == 1 && in % kernel == 0;
  };
  return g.groups == 1 && !g.is_padded() &&
         side_by_side(g.in_height, g.kernel_height, g.stride_height, g.dilation_height) &&
         side_by_side(g.in_width, g.kernel_width, g.stride_width, g.dilation_width);
}

/// The same convolution of the same memory, images stored channels last: a row of patches is an image, and the pixels
/// of a patch's row are the channels of one.
/// `inputs` and `output` are what `preparation` points to.
struct PatchesAsRows {
  ConvProblem problem;
  std::vector<View> inputs;
  View output;
  Preparation preparation;

  /// Precondition: is_patches, and no operand but the image.
  PatchesAsRows(const ConvProblem& patches, const Preparation& p)
      : problem(patches), inputs(p.inputs.begin(), p.inputs.end()), output(p.output()), preparation(p) {
    const ConvGeometry from = patches.geometry;
    ConvGeometry& g = problem.geometry;
    g.batch = from.batch * from.out_height;
    g.in_channels = from.in_channels * from.kernel_width;
    g.in_height = from.kernel_height;
    g.in_width = from.out_width;
    g.out_height = 1;
    g.kernel_width = 1;
    g.stride_height = g.stride_width = 1;
    inputs[0].shape = {g.batch, g.in_channels, g.in_height, g.in_width};
    output.shape = {g.batch, g.out_channels, g.out_height, g.out_width};
    preparation.inputs = inputs;
    preparation.outputs = {&output, 1};
  }
  PatchesAsRows(const PatchesAsRows&) = delete;
  PatchesAsRows& operator=(const PatchesAsRows&) = delete;

  /// Weights [OC, C, KH, KW] as [OC, KW * C, KH, 1].
  static Tensor weights(const Tensor& from) {
    const Shape& s = from.shape();
    const std::int64_t channels = s[1], height = s[2], width = s[3];
    Tensor result({s[0], width * channels, height, 1});
    const auto source = from.values<float>();
    const auto target = result.values<float>();
    std::size_t place = 0;
    for (std::int64_t filter = 0; filter < s[0]; ++filter) {
      for (std::int64_t x = 0; x < width; ++x) {
        for (std::int64_t c = 0; c < channels; ++c) {
          for (std::int64_t y = 0; y < height; ++y, ++place) {
            target[place] = source[static_cast<std::size_t>(((filter * channels + c) * height + y) * width + x)];
          }
        }
      }
    }
    return result;
  }
};

}  // namespace lamina::detail
