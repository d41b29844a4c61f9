#pragma once

#include "lamina/cuda/conv2d/mma/gathered/choice.h"
#include "support/kernel_harness.h"

/// What the tests of the implicit GEMM share: cases, and its tiles.
namespace lamina::test {

inline constexpr Layout nhwc = Layout::nhwc;

/// f32 nchw in, which is staged, f32 nhwc out.
inline KernelOptions implicit(Precision precision, bool relu = false, const Tuning& tuning = {}) {
  return {
      .kernel = "implicit_gemm", .precision = precision, .output = {DType::f32, nhwc}, .relu = relu, .tuning = tuning};
}

/// As inner layers are stored: read in place, where channels fill units.
inline KernelOptions stored(Precision precision, bool relu = false, const Tuning& tuning = {}) {
  KernelOptions options = implicit(precision, relu, tuning);
  options.input = options.output = {storage_type(precision), nhwc};
  return options;
}

class OnTensorCores : public OnCuda {
 protected:
  void SetUp() override {
    OnCuda::SetUp();
    if (IsSkipped()) return;
    if (lamina::describe(Device::cuda()).architecture < 80) GTEST_SKIP() << "needs compute capability 8.0";
  }
};

/// The tiles on offer here for one convolution, as Tuning::tile counts them.
inline std::vector<int> tiles_for(const ConvGeometry& g, Precision precision) {
  namespace family = cuda::mma::gathered;
  const family::KernelSet set = family::kernels_of(precision);
  family::Fold fold;  // of fewer channels than units have; with four, pixels are read in place
  const ConvGeometry multiplied = g.in_channels < family::Fold::channels ? family::folded(g, precision, fold) : g;
  const int unit_bytes = family::make_layout(multiplied, precision).unit_bytes;
  std::vector<int> result;
  for (std::size_t i = 0; i < set.tiles.size(); ++i) {
    if (set.tiles[i].unit_bytes == unit_bytes) result.push_back(static_cast<int>(i));
  }
  return result;
}

// Around tiles of 64, 96 and 128 filters, 64 and 128 pixels, and steps of 32 and 64 terms.
inline const std::vector<Case> cases = {
    {},
    {.in = 3, .height = 5, .width = 7, .out = 2, .kernel = {3, 3}},
    {.batch = 2, .in = 1, .height = 28, .width = 28, .out = 6, .kernel = {5, 5}, .padding = {2, 2}},
    {.in = 1, .height = 17, .width = 13, .out = 1, .kernel = {3, 5}, .stride = {2, 3}, .padding = {1, 2}},
    {.in = 2, .height = 9, .width = 9, .out = 5, .kernel = {2, 2}},
    {.in = 3, .height = 63, .width = 63, .out = 96, .kernel = {11, 11}, .stride = {4, 4}, .padding = {2, 2}},
    {.batch = 3,
     .in = 3,
     .height = 35,
     .width = 35,
     .out = 95,
     .kernel = {11, 11},
     .stride = {4, 4},
     .padding = {2, 2}},
    {.in = 3, .height = 39, .width = 31, .out = 97, .kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}},
    {.in = 4, .height = 23, .width = 23, .out = 64, .kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}},
    {.batch = 2, .in = 64, .height = 9, .width = 11, .out = 192, .kernel = {5, 5}, .padding = {2, 2}},
    {.in = 192, .height = 9, .width = 8, .out = 384, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2, .in = 384, .height = 4, .width = 5, .out = 256, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 16, .height = 8, .width = 8, .out = 63},
    {.in = 16, .height = 8, .width = 8, .out = 64},
    {.in = 16, .height = 8, .width = 8, .out = 65},
    {.in = 32, .height = 7, .width = 9, .out = 127},
    {.in = 32, .height = 16, .width = 8, .out = 128},
    {.in = 32, .height = 3, .width = 43, .out = 129},
    {.in = 31, .height = 11, .width = 11, .out = 33},
    {.in = 33, .height = 1, .width = 127, .out = 17},
    {.in = 63, .height = 1, .width = 128, .out = 96},
    {.in = 64, .height = 1, .width = 129, .out = 95},
    {.in = 65, .height = 65, .width = 1, .out = 97},
    {.in = 5, .height = 12, .width = 12, .out = 8, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 6, .height = 12, .width = 10, .out = 8, .kernel = {3, 2}, .padding = {1, 0}},
    {.in = 7, .height = 10, .width = 12, .out = 9, .kernel = {1, 3}, .padding = {0, 1}},
    {.in = 9, .height = 12, .width = 12, .out = 10, .kernel = {3, 3}, .stride = {2, 1}},
    {.in = 17, .height = 19, .width = 19, .out = 23, .kernel = {3, 3}, .stride = {5, 7}},
    {.in = 8, .height = 20, .width = 20, .out = 16, .kernel = {2, 2}, .stride = {6, 6}},
    {.in = 8, .height = 20, .width = 22, .out = 16, .kernel = {3, 3}, .padding = {2, 2}, .dilation = {2, 2}},
    {.in = 8, .height = 25, .width = 19, .out = 12, .kernel = {3, 5}, .padding = {4, 1}, .dilation = {4, 3}},
    {.in = 4,
     .height = 9,
     .width = 9,
     .out = 4,
     .kernel = {3, 3},
     .stride = {2, 2},
     .padding = {7, 7},
     .dilation = {3, 3}},
    {.in = 3, .height = 2, .width = 2, .out = 3, .kernel = {5, 5}, .padding = {4, 4}},
    {.in = 2, .height = 1, .width = 1, .out = 130, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 2, .in = 32, .height = 14, .width = 14, .out = 32, .kernel = {3, 3}, .padding = {1, 1}, .groups = 32},
    {.batch = 2, .in = 12, .height = 9, .width = 9, .out = 24, .kernel = {3, 3}, .padding = {1, 1}, .groups = 12},
    {.in = 12, .height = 11, .width = 9, .out = 8, .kernel = {3, 3}, .padding = {1, 1}, .groups = 4},
    {.in = 96, .height = 9, .width = 9, .out = 256, .kernel = {5, 5}, .padding = {2, 2}, .groups = 2},
    {.batch = 2, .in = 40, .height = 8, .width = 8, .out = 130, .kernel = {3, 3}, .padding = {1, 1}, .groups = 2},
    {.in = 1, .height = 1, .width = 300, .out = 3, .kernel = {1, 127}},
    {.in = 2, .height = 200, .width = 3, .out = 3, .kernel = {127, 2}, .stride = {3, 1}, .padding = {60, 0}},
    {.in = 1, .height = 1, .width = 40000, .out = 4, .kernel = {1, 16}, .stride = {1, 4}, .padding = {0, 5}},
    {.batch = 37, .in = 8, .height = 1, .width = 1, .out = 11},
    {.batch = 131, .in = 3, .height = 3, .width = 3, .out = 7, .kernel = {3, 3}},
    {.batch = 5, .in = 24, .height = 5, .width = 5, .out = 40, .kernel = {3, 3}, .padding = {1, 1}},
    {.batch = 64, .in = 20, .height = 2, .width = 1, .out = 21, .kernel = {2, 1}},
    {.in = 1024, .height = 2, .width = 3, .out = 70},
    {.in = 512, .height = 4, .width = 4, .out = 31, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 257, .height = 5, .width = 5, .out = 67, .kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 1}},
    {.in = 3, .height = 32, .width = 32, .out = 64, .kernel = {3, 3}, .padding = {1, 1}},
    {.in = 48, .height = 10, .width = 10, .out = 96, .kernel = {1, 1}, .stride = {3, 3}},
    {.in = 100, .height = 12, .width = 11, .out = 104, .kernel = {3, 3}, .padding = {1, 1}},
};

}  // namespace lamina::test
