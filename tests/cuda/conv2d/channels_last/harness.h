#pragma once

#include "lamina/cuda/conv2d/channels_last/channels_last.h"

#include "cuda/conv2d/family.h"
#include "lamina/cuda/conv2d/channels_last/choice.h"

/// What the tests of the channels-last convolution share: cases, and its choices.
namespace lamina::test {

inline KernelOptions options_for(Precision precision, bool relu = false, const Tuning& tuning = {}) {
  return channels_last_options("channels_last", precision, relu, {}, tuning);
}

/// What the rule makes of it; nothing if the tuning leaves nothing.
inline std::optional<cuda::channels_last::Choice> choice_of(const ConvGeometry& g, const KernelOptions& o) {
  auto demands = cuda::channels_last::demands_of({.chain = o.chain, .pool = o.pool}, o.output.dtype);
  if (g.groups > 1) demands.group_filters = g.group_out_channels();
  return cuda::channels_last::choose(cuda::channels_last::of_group(g), Task(g, o).preparation, demands);
}

// Around tiles of 64 filters and 48 to 256 pixels, slabs of 32 and 64 channels, images of one pixel and of many.
inline const std::vector<Case> nhwc_cases = {
    conv("64x8x8 -> 64"),
    conv("8x5x7 -> 8, k 3, p 1"),
    conv("n2 64x9x11 -> 192, k 5, p 2"),
    conv("n3 192x13x13 -> 384, k 3, p 1"),
    conv("384x13x13 -> 256, k 3, p 1"),
    conv("n2 72x10x9 -> 72, k 3, p 1"),
    conv("n2 32x20x22 -> 56, k 3, p 2, d 2"),
    conv("40x25x19 -> 24, k 3x5, p 4x1, d 4x3"),
    conv("n2 96x17x13 -> 136, k 3x5, s 2x3, p 1x2"),
    conv("16x19x19 -> 16, k 3, s 5x7"),
    conv("24x20x20 -> 128, k 2, s 6"),
    conv("8x9x9 -> 8, k 3, s 2, p 7, d 3"),
    conv("8x2x2 -> 16, k 5, p 4"),
    {.batch = 5, .in = 48, .height = 1, .width = 1, .out = 130 * 8, .kernel = {3, 3}, .padding = {1, 1}},
    conv("n37 136x1x1 -> 40"),
    conv("n259 576x1x1 -> 1000"),
    conv("128x1x257 -> 320, k 1x3, p 0x1"),
    conv("16x211x3 -> 8, k 11x2, s 3x1, p 5x0"),
    conv("n131 8x3x3 -> 8, k 3"),
    conv("n3 64x14x14 -> 128, s 2"),
    conv("8x40x40 -> 8, k 33x31, p 16x15"),
};

class ChannelsLast : public OnHopper {};

}  // namespace lamina::test
