// The channels-last convolution by rectangles whose pixels come once, with their halo.

#include "cuda/conv2d/channels_last/harness.h"

namespace lamina::test::halo_test {
namespace {

// Rectangles of 8 x 14 to 8 x 32 that end with the image and reach past it, slabs of 64 channels with a remainder,
// weights that stay and that do not, several tiles for each team of a block.
const std::vector<Case> cases = {
    conv("n9 64x56x56 -> 64, k 3, p 1"),
    conv("n3 64x45x37 -> 200, k 3, p 1"),
    conv("n2 200x30x31 -> 136, k 5, p 2"),
    conv("n2 128x60x70 -> 64, k 3, p 3x1, d 3x1"),
    conv("n4 40x33x17 -> 72, k 3"),
    conv("n2 264x29x24 -> 256, k 3, p 2x0"),
    conv("n3 72x40x9 -> 64, k 1x7, p 0x3"),
    conv("n3 72x9x40 -> 64, k 7x1, p 3x0"),
    conv("n2 72x28x28 -> 136, k 3, p 24, d 24"),
    conv("n2 136x75x61 -> 64, k 3x5, p 20x24, d 23x12"),
    conv("n5 128x56x52 -> 32, k 3, p 1"),
    conv("n3 72x29x24 -> 24, k 3, p 0x1"),
    conv("n3 136x17x8 -> 56"),  // single pixels, of all images
};

/// Calls `test(options)` with each tile of that kind which takes the layer.
template <class Test>
void on_every_rectangle(const ConvGeometry& g, const KernelOptions& options, Test&& test) {
  const auto tiles = cuda::channels_last::tiles(options.precision);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    KernelOptions o = options;
    o.tuning = {.tile = static_cast<int>(i), .splits = 1, .multicast = 1};
    if (tiles[i].teams > 0 && choice_of(g, o)) test(o);
  }
}

class ChannelsLastHalo : public OnHopper {};

TEST_F(ChannelsLastHalo, MeetsContract) {
  unsigned seed = 20;
  for (const Precision precision : of_16_bits) {
    int tried = 0;
    for (const Case& c : cases) {
      const ConvGeometry g = geometry_of(c);
      if (reduced() && g.flops() > 1e8) continue;
      const ConvData data = draw(g, normal, normal, ++seed);
      const ConvReference reference = reference_of(g, precision, data, true);
      on_every_rectangle(g, options_for(precision, seed % 2 == 0), [&](const KernelOptions& o) {
        expect_contract(g, o, data, true, reference);
        ++tried;
      });
    }
    EXPECT_GE(tried, reduced() ? 1 : static_cast<int>(2 * cases.size()));
  }
}

TEST_F(ChannelsLastHalo, GivesF32) {
  for (const Precision precision : of_16_bits) {
    const ConvGeometry g = geometry_of(cases[4]);
    const ConvData data = draw(g, normal, normal, 31);
    KernelOptions options = options_for(precision);
    options.output.dtype = DType::f32;
    on_every_rectangle(g, options, [&](const KernelOptions& o) { expect_contract(g, o, data, true); });
  }
}

// What is added comes ahead of its tile, and functions are done to the sums.
TEST_F(ChannelsLastHalo, Epilogues) {
  const PointwiseStep addition = {.function = Pointwise::add, .operand = 1};
  const PointwiseChain chains[] = {{addition},
                                   {addition, {.function = Pointwise::clip, .a = -1, .b = 2}},
                                   {{.function = Pointwise::silu}},
                                   {{.function = Pointwise::gelu}, {.function = Pointwise::relu}}};
  for (const Precision precision : of_16_bits) {
    for (const std::size_t i : {0u, 1u, 5u, 11u}) {
      if (reduced() && i != 5u) continue;
      const ConvGeometry g = geometry_of(cases[i]);
      const ConvData data = draw(g, normal, normal, 41);
      const ConvReference reference = reference_of(g, precision, data, true);
      for (const PointwiseChain& chain : chains) {
        KernelOptions options = options_for(precision);
        options.chain = chain;
        on_every_rectangle(g, options, [&](const KernelOptions& o) { expect_contract(g, o, data, true, reference); });
      }
    }
  }
}

/// The maxima of 2 x 2 pixels of a map, NaN where one of them is.
std::vector<float> maxima(const std::vector<float>& map, const ConvGeometry& g) {
  const auto height = static_cast<std::size_t>(g.out_height), width = static_cast<std::size_t>(g.out_width);
  std::vector<float> result;
  for (std::size_t plane = 0; plane < map.size(); plane += height * width) {
    for (std::size_t row = 0; row + 1 < height; row += 2) {
      for (std::size_t column = 0; column + 1 < width; column += 2) {
        float largest = -infinity;
        for (const std::size_t i : {std::size_t{0}, std::size_t{1}, width, width + 1}) {
          const float y = map[plane + row * width + column + i];
          if (std::isnan(y) || y > largest) largest = y;
          if (std::isnan(y)) break;
        }
        result.push_back(largest);
      }
    }
  }
  return result;
}

// The same bits as pooling what is stored without, also of what is not finite; the last row and column may be of no
// window.
TEST_F(ChannelsLastHalo, Pools) {
  for (const Precision precision : of_16_bits) {
    for (const Case& c :
         {Case{.batch = 5, .in = 64, .height = 57, .width = 50, .out = 136, .kernel = {3, 3}, .padding = {1, 1}},
          Case{.batch = 9, .in = 136, .height = 35, .width = 47, .out = 128, .kernel = {3, 3}, .padding = {2, 0}}}) {
      const ConvGeometry g = geometry_of(c);
      if (reduced() && c.in != 64) continue;
      ConvData data = draw(g, normal, normal, 71);
      int tried = 0;
      for (const bool finite : {true, false}) {
        if (!finite)
          data.x[0] = infinity, data.x[77] = -infinity, data.x[4000] = std::nanf(""), data.x.back() = infinity;
        KernelOptions options = options_for(precision, c.in == 64);
        const std::vector<float> expected =
            maxima(run(g, options_for(precision, c.in == 64, {.tile = 6, .splits = 1, .multicast = 1}), data, true), g);
        options.pool = pool_geometry(g, 2, 2);
        on_every_rectangle(g, options, [&](const KernelOptions& o) {
          const std::vector<float> y = run(g, o, data, true);
          ASSERT_EQ(y.size(), expected.size());
          for (std::size_t i = 0; i < y.size(); ++i) {
            ASSERT_TRUE(y[i] == expected[i] || (std::isnan(y[i]) && std::isnan(expected[i])))
                << describe(g, o) << ": output " << i << " is " << y[i] << ", expected " << expected[i];
          }
          ++tried;
        });
        options.pool->kernel_height = 3;
        EXPECT_FALSE(takes(g, options));
      }
      EXPECT_GE(tried, 2);
    }
  }
}

TEST_F(ChannelsLastHalo, WhatIsNotFiniteReachesItsWindowsAlone) {
  const ConvGeometry g = geometry_of(cases[4]);
  for (const Precision precision : of_16_bits) {
    const ConvData data = draw_not_finite(g, 51);
    on_every_rectangle(g, options_for(precision, true),
                       [&](const KernelOptions& o) { expect_contract(g, o, data, true); });
  }
}

TEST_F(ChannelsLastHalo, Overflow) {
  const ConvGeometry g = geometry_of(cases[4]);
  const ConvData data = draw_overflow(g, 53);
  on_every_rectangle(g, options_for(Precision::bf16), [&](const KernelOptions& o) { expect_infinity(g, o, data); });
}

// Sums advance through K in the same steps as those of other tiles.
TEST_F(ChannelsLastHalo, SameBitsAsRunsOfPixels) {
  for (const Precision precision : of_16_bits) {
    for (const std::size_t i : {1u, 4u}) {
      if (reduced() && i != 4u) continue;
      const ConvGeometry g = geometry_of(cases[i]);
      const ConvData data = draw(g, normal, normal, 61);
      const auto expected =
          run_bytes(g, options_for(precision, true, {.tile = 6, .splits = 1, .multicast = 1}), data, true);
      on_every_rectangle(g, options_for(precision, true), [&](const KernelOptions& o) {
        EXPECT_EQ(run_bytes(g, o, data, true), expected) << describe(g, o);
      });
    }
  }
}

TEST_F(ChannelsLastHalo, LeavesWhatWouldComeTwice) {
  for (const Case& c : {Case{.in = 64, .height = 56, .width = 56, .out = 512},  // again for other filters
                        Case{.in = 64, .height = 56, .width = 56, .out = 64, .kernel = {3, 3}, .stride = {2, 1}},
                        Case{.in = 64, .height = 56, .width = 56, .out = 64, .kernel = {3, 3}, .stride = {1, 3}}}) {
    on_every_rectangle(geometry_of(c), options_for(Precision::fp16), [&](const KernelOptions& o) {
      ADD_FAILURE() << describe(geometry_of(c), o) << ": expected no rectangle to take it";
    });
  }
}

}  // namespace
}  // namespace lamina::test::halo_test
