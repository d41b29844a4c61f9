// The textbook kernels compute what the contract promises.

#include "cuda/conv2d/ladder/harness.h"

namespace lamina::test::ladder_test {
namespace {

TEST_F(CudaConv2d, MeetsTheContractOnAwkwardGeometries) {
  const auto geometries = awkward_geometries();
  for (std::size_t i = 0; i < geometries.size(); i += reduced() ? 3 : 1) {
    check_all(geometries[i], Values::mixed, i % 2 == 0, i % 4 < 2);
    if (reduced()) continue;
    check_all(geometries[i], Values::mixed, i % 2 != 0, i % 4 >= 2);
    check_all(geometries[i], Values::positive, true, false);
    check_all(geometries[i], Values::equal, false, true);
  }
}

TEST_F(CudaConv2d, MeetsTheContractOnAlexNetConv1) {
  if (reduced()) return check_all(alexnet_conv1(1, 64), Values::mixed, true, true);
  check_all(alexnet_conv1(2, 96), Values::mixed, true, true);
  check_all(alexnet_conv1(1, 96), Values::mixed, false, false);
  check_all(alexnet_conv1(1, 96), Values::positive, true, false);
  check_all(alexnet_conv1(1, 96), Values::equal, true, false);
  check_all(alexnet_conv1(3, 64), Values::mixed, true, false);
  check_all(alexnet_conv1(1, 64), Values::equal, false, true);
  // One number away from the compiled geometry must not go through its kernel.
  check_all(geometry_of(square(1, 3, 224, 224, 96, 11, 4, 1)), Values::mixed, true, false);
  check_all(geometry_of(square(1, 3, 223, 224, 64, 11, 4, 2)), Values::mixed, true, false);
}

TEST_F(CudaConv2d, DirectFixedSaysWhetherItApplies) {
  const Convolution fixed(alexnet_conv1(1), Values::mixed, false);
  EXPECT_EQ(kernel_name(*fixed.prepare({.kernel = "direct_fixed"}).op), "direct_fixed");
  const Convolution other(geometry_of(square(1, 3, 9, 9, 96, 3)), Values::mixed, false);
  const Prepared kernel = other.prepare({.kernel = "direct_fixed"});
  EXPECT_EQ(kernel_name(*kernel.op), "direct");
  EXPECT_NE(kernel.op->description().find("direct_fixed"), std::string::npos) << kernel.op->description();
}

TEST_F(CudaConv2d, TiledFallsBackWhereNothingFits) {
  // One kernel row of one output spans 80,000 columns, 320 KB.
  Convolution convolution(geometry_of(ConvCase{1, 1, 2, 80'003, 2, 2, 2, 1, 1, 0, 0, 1, 80'000, 1}), Values::mixed,
                          true);
  EXPECT_EQ(kernel_name(*convolution.prepare({.kernel = "tiled"}).op), "direct");
  convolution.expect({.kernel = "tiled"});
}

TEST_F(CudaConv2d, Tf32MeetsItsContract) {
  const auto geometries = awkward_geometries();
  for (std::size_t i = 0; i < geometries.size(); i += reduced() ? 7 : 1) {
    for (const Values values : {Values::mixed, Values::equal}) {
      Convolution convolution(geometries[i], values, i % 2 == 0);
      convolution.expect({.kernel = "im2col", .precision = Precision::tf32});
    }
  }
}

/// Whether the window of output (oh, ow) holds input pixel (ih, iw).
bool window_holds(const ConvGeometry& g, int oh, int ow, int ih, int iw) {
  const int h = ih - (oh * g.stride_height - g.padding_height);
  const int w = iw - (ow * g.stride_width - g.padding_width);
  return h >= 0 && w >= 0 && h % g.dilation_height == 0 && w % g.dilation_width == 0 &&
         h / g.dilation_height < g.kernel_height && w / g.dilation_width < g.kernel_width;
}

TEST_F(CudaConv2d, NonFiniteInputReachesExactlyItsWindows) {
  struct Poison {
    ConvGeometry g;
    int channel, row, column;
  };
  std::vector<Poison> poisons = {{geometry_of(square(2, 4, 17, 19, 10, 3, 2, 2, 2, 2)), 1, 0, 0},
                                 {geometry_of(square(2, 4, 17, 19, 10, 3, 1, 1)), 3, 16, 18},
                                 {geometry_of(square(2, 4, 33, 40, 10, 5, 7, 1)), 2, 20, 9},
                                 {alexnet_conv1(2), 1, 100, 111}};
  if (reduced()) poisons.pop_back();
  for (const Poison& poison : poisons) {
    const ConvGeometry& g = poison.g;
    const std::int64_t image = g.batch - 1;
    const Convolution convolution(g, Values::mixed, true);
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = convolution.data.x;
      x[static_cast<std::size_t>(((image * g.in_channels + poison.channel) * g.in_height + poison.row) * g.in_width +
                                 poison.column)] = value;
      for (const std::string_view name : textbook) {
        for (const bool relu : {false, true}) {
          const Prepared kernel = convolution.prepare({.kernel = name, .relu = relu});
          const auto clean = run(kernel, convolution.data.x);
          const auto y = run(kernel, x);
          std::size_t i = 0;
          for (std::int64_t n = 0; n < g.batch; ++n) {
            for (int oc = 0; oc < g.out_channels; ++oc) {
              for (int oh = 0; oh < g.out_height; ++oh) {
                for (int ow = 0; ow < g.out_width; ++ow, ++i) {
                  const bool reached = n == image &&
                                       oc / g.group_out_channels() == poison.channel / g.group_in_channels() &&
                                       window_holds(g, oh, ow, poison.row, poison.column);
                  const bool as_expected = !reached            ? y[i] == clean[i]
                                           : std::isnan(value) ? std::isnan(y[i])
                                                               : std::isinf(y[i]) || (relu && y[i] == 0.0f);
                  ASSERT_TRUE(as_expected)
                      << kernel.op->description() << ", " << describe(g) << ": element " << i << " is " << y[i]
                      << " with " << value << " in the input, " << clean[i] << " without";
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(CudaConv2d, AutomaticMeetsTheContract) {
  for (const ConvGeometry& g : {alexnet_conv1(1), geometry_of(square(2, 17, 14, 15, 33, 3, 1, 1))}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32}) {
      Convolution convolution(g, Values::mixed, true);
      convolution.expect({.precision = precision, .relu = true});
    }
  }
}

}  // namespace
}  // namespace lamina::test::ladder_test
