// The largest of windows of bf16, channels last: every number of channels, every kind of number.

#include <gtest/gtest.h>

#include <array>

#include "lamina/cpu/pool2d/channels.h"
#include "support/guarded.h"

namespace lamina::cpu::channel_windows_test {
namespace {

constexpr std::array<std::uint16_t, 14> kinds = {0x0000, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0,
                                                 0xffc0, 0x7f81, 0xff81, 0x0001, 0x8001, 0x4049, 0xc2f7};

/// Of the channel of 2 x 3 pixels.
float largest(Guarded<std::uint16_t>& pixels, std::int64_t channels, std::int64_t channel) {
  float result = -std::numeric_limits<float>::infinity();
  for (std::int64_t pixel = 0; pixel < 6; ++pixel) {
    const float x = to_float(bfloat16{pixels.data()[pixel * channels + channel]});
    if (std::isnan(x)) return x;
    result = std::max(result, x);
  }
  return result;
}

TEST(CpuChannelWindows, TheLargestOfBf16IsThatOfItsNumbers) {
  for (const ChannelPoolKernel& kernel : channel_pool_kernels()) {
    unsigned seed = 1;
    for (std::int64_t channels = 1; channels <= 140; ++channels) {
      Guarded<std::uint16_t> pixels(6 * channels), output(channels);
      for (std::uint16_t& x : pixels.span()) {
        seed = seed * 1664525u + 1013904223u;
        const unsigned bits = seed >> 16;
        x = bits % 8 == 0 ? kinds[bits / 8 % kinds.size()] : static_cast<std::uint16_t>(bits);
      }
      kernel.bf16.largest({.first = pixels.data(),
                           .rows = 2,
                           .columns = 3,
                           .row = 3 * channels,
                           .column = channels,
                           .channels = channels,
                           .divisor = 1,
                           .output = output.data()});
      for (std::int64_t c = 0; c < channels; ++c) {
        const float found = to_float(bfloat16{output.data()[c]}), truth = largest(pixels, channels, c);
        ASSERT_TRUE(found == truth || (std::isnan(found) && std::isnan(truth)))
            << name(kernel.set) << ", channel " << c << " of " << channels << ": " << found << ", not " << truth;
      }
    }
  }
}

TEST(CpuChannelWindows, AWindowWithoutPixelsIsMinusInfinity) {
  for (const ChannelPoolKernel& kernel : channel_pool_kernels()) {
    Guarded<std::uint16_t> output(67);
    kernel.bf16.largest({.first = nullptr,
                         .rows = 0,
                         .columns = 0,
                         .row = 0,
                         .column = 0,
                         .channels = 67,
                         .divisor = 1,
                         .output = output.data()});
    for (const std::uint16_t x : output.span()) EXPECT_EQ(x, 0xff80) << name(kernel.set);
  }
}

}  // namespace
}  // namespace lamina::cpu::channel_windows_test
