#pragma once

#include "lamina/cuda/conv2d/channels_last/channels_last.h"

#include "lamina/cuda/conv2d/channels_last/choice.h"
#include "support/kernel_harness.h"

/// What the tests of the channels-last convolution share: cases, and its choices.
namespace lamina::test {

inline KernelOptions options_for(Precision precision, bool relu = false, const Tuning& tuning = {}) {
  const Format stored = {storage_type(precision), Layout::nhwc};
  return {.kernel = "channels_last",
          .precision = precision,
          .input = stored,
          .output = stored,
          .relu = relu,
          .tuning = tuning};
}

/// What the rule makes of it; nothing if the tuning leaves nothing.
inline std::optional<cuda::channels_last::Choice> choice_of(const ConvGeometry& g, const KernelOptions& o) {
  const auto demands = cuda::channels_last::demands_of({.chain = o.chain, .pool = o.pool}, o.output.dtype);
  return cuda::channels_last::choose(g, Task(g, o).preparation, demands);
}

// Around tiles of 64 filters and 48 to 256 pixels, slabs of 32 and 64 channels, images of one pixel and of many.
inline const std::vector<Case> nhwc_cases = {
    {.in = 64, .height = 8, .width = 8, .out = 64},
    {.in = 8, .height = 5, .width = 7, .out = 8, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2, .in = 64, .height = 9, .width = 11, .out = 192, .kernel = {5, 5}, .padding = {2, 2}},
    {.batch = 3, .in = 192, .height = 13, .width = 13, .out = 384, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 384, .height = 13, .width = 13, .out = 256, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2, .in = 72, .height = 10, .width = 9, .out = 72, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2,
     .in = 32,
     .height = 20,
     .width = 22,
     .out = 56,
     .kernel = {3, 3},
     .padding = {2, 2},
     .dilation = {2, 2}},
    {.in = 40, .height = 25, .width = 19, .out = 24, .kernel = {3, 5}, .padding = {4, 1}, .dilation = {4, 3}},
    {.batch = 2,
     .in = 96,
     .height = 17,
     .width = 13,
     .out = 136,
     .kernel = {3, 5},
     .stride = {2, 3},
     .padding = {1, 2}},
    {.in = 16, .height = 19, .width = 19, .out = 16, .kernel = {3, 3}, .stride = {5, 7}},
    {.in = 24, .height = 20, .width = 20, .out = 128, .kernel = {2, 2}, .stride = {6, 6}},
    {.in = 8,
     .height = 9,
     .width = 9,
     .out = 8,
     .kernel = {3, 3},
     .stride = {2, 2},
     .padding = {7, 7},
     .dilation = {3, 3}},
    {.in = 8, .height = 2, .width = 2, .out = 16, .kernel = {5, 5}, .padding = {4, 4}},
    {.batch = 5, .in = 48, .height = 1, .width = 1, .out = 130 * 8, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 37, .in = 136, .height = 1, .width = 1, .out = 40},
    {.batch = 259, .in = 576, .height = 1, .width = 1, .out = 1000},
    {.in = 128, .height = 1, .width = 257, .out = 320, .kernel = {1, 3}, .padding = {0, 1}},
    {.in = 16, .height = 211, .width = 3, .out = 8, .kernel = {11, 2}, .stride = {3, 1}, .padding = {5, 0}},
    {.batch = 131, .in = 8, .height = 3, .width = 3, .out = 8, .kernel = {3, 3}},
    {.batch = 3, .in = 64, .height = 14, .width = 14, .out = 128, .kernel = {1, 1}, .stride = {2, 2}},
    {.in = 8, .height = 40, .width = 40, .out = 8, .kernel = {33, 31}, .padding = {16, 15}},
};

class NhwcConv2d : public OnHopper {};

}  // namespace lamina::test
