#pragma once

#include <algorithm>
#include <cstdint>

namespace lamina {

/// All the numbers of one convolution, validated by the layer, passed to kernels by value.
///   input  [batch, in_channels, in_height, in_width]
///   weight [out_channels, in_channels / groups, kernel_height, kernel_width]
///   output [batch, out_channels, out_height, out_width]
/// out = floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, each at least 1; or another number, and then
/// there are as many zeros behind the image as the last window sees.
struct ConvGeometry {
  std::int64_t batch = 1;
  int in_channels = 0, in_height = 0, in_width = 0;
  int out_channels = 0, out_height = 0, out_width = 0;
  int kernel_height = 0, kernel_width = 0;
  int stride_height = 1, stride_width = 1;
  int padding_height = 0, padding_width = 0;
  int dilation_height = 1, dilation_width = 1;
  int groups = 1;

  constexpr int group_in_channels() const { return in_channels / groups; }
  constexpr int group_out_channels() const { return out_channels / groups; }
  /// K: the terms of one output's sum.
  constexpr std::int64_t reduction() const { return std::int64_t{group_in_channels()} * kernel_height * kernel_width; }
  constexpr std::int64_t in_pixels() const { return std::int64_t{in_height} * in_width; }
  constexpr std::int64_t out_pixels() const { return std::int64_t{out_height} * out_width; }
  /// Rows and columns of zeros behind the image: those of the padding, or more.
  constexpr int zeros_below() const {
    return std::max(padding_height, (out_height - 1) * stride_height + (kernel_height - 1) * dilation_height + 1 -
                                        padding_height - in_height);
  }
  constexpr int zeros_right() const {
    return std::max(padding_width, (out_width - 1) * stride_width + (kernel_width - 1) * dilation_width + 1 -
                                       padding_width - in_width);
  }
  /// Whether a window may see zeros around the image.
  constexpr bool is_padded() const { return zeros_below() > 0 || zeros_right() > 0; }
  constexpr bool is_uneven() const { return zeros_below() > padding_height || zeros_right() > padding_width; }
  constexpr std::int64_t padded_height() const { return std::int64_t{in_height} + padding_height + zeros_below(); }
  constexpr std::int64_t padded_width() const { return std::int64_t{in_width} + padding_width + zeros_right(); }
  constexpr std::int64_t input_size() const { return batch * in_channels * in_pixels(); }
  constexpr std::int64_t weight_size() const { return out_channels * reduction(); }
  constexpr std::int64_t output_size() const { return batch * out_channels * out_pixels(); }
  /// Multiplications plus additions, those that fall on padding included.
  constexpr double flops() const { return 2.0 * static_cast<double>(output_size()) * static_cast<double>(reduction()); }

  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

}  // namespace lamina
