#pragma once

#include <cstdlib>

#include "cuda/conv2d/implicit_gemm/harness.h"
#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/channels_last/choice.h"

/// What the tests of the channels-last convolution share: cases, and runs against the double reference.
namespace lamina::cuda {

inline constexpr const auto& nhwc_precisions = precisions;

inline Conv2dOptions options_for(Precision precision, bool relu = false) {
  return {.precision = precision,
          .input = storage_type(precision),
          .output = storage_type(precision),
          .input_layout = Layout::nhwc,
          .output_layout = Layout::nhwc,
          .relu = relu};
}

/// [N, C, H, W] and [N, H, W, C] elements, by their place in the former.
template <class Visit>
void for_each_place(std::int64_t batch, int channels, std::int64_t pixels, Visit&& visit) {
  std::size_t at = 0;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (int c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        visit(at++, static_cast<std::size_t>((n * pixels + p) * channels + c));
      }
    }
  }
}

/// The bytes of the output, channels last.
inline std::vector<unsigned char> run_nhwc_bytes(const ConvGeometry& g, const Conv2dOptions& options, const Data& data,
                                                 bool biased, const NhwcChoice& choice) {
  const auto kernel = make_nhwc_conv2d(g, options, data.w.data(), biased ? data.b.data() : nullptr, choice);
  const Guarded workspace(kernel->workspace_bytes());
  std::vector<float> x(data.x.size());
  for_each_place(g.batch, g.in_channels, g.in_pixels(), [&](auto nchw, auto nhwc) { x[nhwc] = data.x[nchw]; });
  Buffer input;
  if (options.input == DType::f32) {
    input = Buffer(0, x.data(), x.size() * sizeof(float));
  } else {
    const auto bits = to_bits(x, options.input);
    input = Buffer(0, bits.data(), bits.size() * 2);
  }
  const Guarded output(static_cast<std::size_t>(g.output_size()) * size_of(options.output));
  kernel->run(input.data(), output.data(), workspace.data(), nullptr);
  check(cudaDeviceSynchronize());
  (void)workspace.read();  // nothing was written outside of it
  return output.read();
}

inline std::vector<float> run_nhwc(const ConvGeometry& g, const Conv2dOptions& options, const Data& data, bool biased,
                                   const NhwcChoice& choice) {
  const auto bytes = run_nhwc_bytes(g, options, data, biased, choice);
  std::vector<float> values(static_cast<std::size_t>(g.output_size()));
  for_each_place(g.batch, g.out_channels, g.out_pixels(), [&](auto nchw, auto nhwc) {
    if (options.output == DType::f32) {
      std::memcpy(&values[nchw], bytes.data() + 4 * nhwc, 4);
    } else {
      std::uint16_t bits;
      std::memcpy(&bits, bytes.data() + 2 * nhwc, 2);
      values[nchw] = options.output == DType::f16 ? to_float(half{bits}) : to_float(bfloat16{bits});
    }
  });
  return values;
}

inline std::string describe(const ConvGeometry& g, const Conv2dOptions& options, const NhwcChoice& choice) {
  return detail::concat(describe(g, options, ImplicitGemmChoice{choice.tile, choice.splits}), ", multicast ",
                        choice.multicast);
}

/// The operands as the precision stores them.
inline Data rounded(Data data, Precision precision) {
  for (float& v : data.x) v = round_to(v, precision);
  for (float& v : data.w) v = round_to(v, precision);
  return data;
}

inline ConvReference reference_for(const ConvGeometry& g, const Data& data, bool biased) {
  return reference_conv2d(g, data.x.data(), data.w.data(), biased ? data.b.data() : nullptr);
}

/// Runs and compares every output with the reference; the worst error as a share of the bound.
inline double expect_nhwc(const ConvGeometry& g, const Conv2dOptions& options, const Data& data, bool biased,
                          const ConvReference& reference, const NhwcChoice& choice = {}) {
  return expect_outputs(g, options, reference, run_nhwc(g, options, data, biased, choice),
                        describe(g, options, choice));
}

inline double expect_nhwc(const ConvGeometry& g, const Conv2dOptions& options, const Data& unrounded, bool biased,
                          const NhwcChoice& choice = {}) {
  const Data data = rounded(unrounded, options.precision);
  return expect_nhwc(g, options, data, biased, reference_for(g, data, biased), choice);
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

class NhwcConv2d : public ::testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
    if (!nhwc_conv2d_supports(geometry_of(nhwc_cases[0]), options_for(Precision::fp16))) {
      GTEST_SKIP() << "needs compute capability 9.0 and a build with sm_90a code";
    }
  }
};

/// Under a sanitizer, which takes a hundred times as long: fewer of the same.
inline bool reduced() { return std::getenv("LAMINA_TEST_REDUCED") != nullptr; }

}  // namespace lamina::cuda
