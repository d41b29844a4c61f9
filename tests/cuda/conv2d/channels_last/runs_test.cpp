// How the channels-last convolution runs: the same every time, in graphs, beside other kernels; what it refuses.

#include "cuda/conv2d/channels_last/harness.h"
#include "cuda/runtime/overlap_harness.h"
#include "lamina/cuda/runtime/stream.h"

namespace lamina::cuda {
namespace {

TEST_F(NhwcConv2d, SameBitsEveryRun) {
  const ConvGeometry g = geometry_of(nhwc_cases[3]);
  for (const Precision precision : nhwc_precisions) {
    const Data data = draw(g, normal, normal, 43);
    for (const NhwcChoice& choice : {NhwcChoice{}, {-1, 1, 7}, {-1, 2, 1}}) {
      const auto first = run_nhwc_bytes(g, options_for(precision), data, true, choice);
      for (int repeat = 0; repeat < 3; ++repeat) {
        ASSERT_EQ(first, run_nhwc_bytes(g, options_for(precision), data, true, choice));
      }
      if (reduced()) break;
    }
  }
}

TEST_F(NhwcConv2d, RunsInAGraphOnOtherBuffers) {
  const ConvGeometry g = geometry_of(nhwc_cases[0]);
  const Conv2dOptions options = options_for(Precision::fp16);
  const Data data = draw(g, normal, normal, 17);
  const auto kernel = make_nhwc_conv2d(g, options, data.w.data(), data.b.data());
  const auto first = run_nhwc_bytes(g, options, data, true, {});
  std::vector<float> x(data.x.size());
  for_each_place(g.batch, g.in_channels, g.in_pixels(), [&](auto nchw, auto nhwc) { x[nhwc] = data.x[nchw]; });
  const auto bits = to_bits(x, DType::f16);
  const Buffer input(0, bits.data(), bits.size() * 2);
  const Guarded a(first.size()), b(first.size());
  const OwnedStream stream(0);
  const CapturedGraph graph(0, [&](Stream s) {
    kernel->run(input.data(), a.data(), nullptr, s);
    kernel->run(input.data(), b.data(), nullptr, s);
  });
  graph.launch(stream.get());
  synchronize(0, stream.get());
  EXPECT_EQ(a.read(), first);
  EXPECT_EQ(b.read(), first);
}

// Blocks of a kernel begin beside those of the one before it: with its weights, but not before its result.
TEST_F(NhwcConv2d, LayersOverlapWithoutRunningAhead) {
  for (const Precision precision : nhwc_precisions) {
    const Conv2dOptions options = options_for(precision, true);
    std::vector<std::unique_ptr<Conv2dKernel>> layers;
    std::vector<Buffer> values, workspaces;
    const auto add = [&](const Case& c) {
      const ConvGeometry g = geometry_of(c);
      const Data data = draw(g, normal, normal, static_cast<unsigned>(layers.size()) + 90);
      layers.push_back(make_nhwc_conv2d(g, options, data.w.data(), data.b.data()));
      workspaces.emplace_back(0, layers.back()->workspace_bytes());
      if (values.empty()) values.emplace_back(0, static_cast<std::size_t>(g.input_size()) * size_of(options.input));
      values.emplace_back(0, static_cast<std::size_t>(g.output_size()) * size_of(options.output));
    };
    add({.in = 64, .height = 13, .width = 13, .out = 192, .kernel = {3, 3}, .padding = {1, 1}});
    add({.in = 192, .height = 13, .width = 13, .out = 384, .kernel = {3, 3}, .padding = {1, 1}});
    add({.in = 384, .height = 13, .width = 13, .out = 256, .kernel = {3, 3}, .padding = {1, 1}});
    add({.in = 256, .height = 13, .width = 13, .out = 256, .kernel = {3, 3}, .padding = {1, 1}});
    add({.in = 256, .height = 13, .width = 13, .out = 64, .kernel = {1, 1}});
    const OwnedStream stream(0);
    const auto run = [&](std::size_t layer, Stream s) {
      layers[layer]->run(values[layer].data(), values[layer + 1].data(), workspaces[layer].data(), s);
    };
    const CapturedGraph graph(0, [&](Stream s) {
      for (std::size_t layer = 0; layer < layers.size(); ++layer) run(layer, s);
    });
    for (unsigned input = 0; input < (reduced() ? 1 : 20); ++input) {
      std::mt19937 random(input);
      std::vector<float> x(values[0].bytes() / size_of(options.input));
      for (float& v : x) v = normal(random);
      const auto bits = options.input == DType::f32 ? std::vector<std::uint16_t>{} : to_bits(x, options.input);
      upload(0, values[0].data(), bits.empty() ? static_cast<const void*>(x.data()) : bits.data(), values[0].bytes(),
             stream.get());
      expect_no_running_ahead(values, run, graph, 1, stream.get(), detail::concat(name(precision), ", input ", input));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(NhwcConv2d, RefusesWhatItCannotDo) {
  const auto takes = [](Case c, const auto& change) {
    Conv2dOptions options = options_for(Precision::fp16);
    change(c, options);
    return nhwc_conv2d_supports(geometry_of(c), options);
  };
  const Case c = nhwc_cases[1];
  EXPECT_TRUE(takes(c, [](Case&, Conv2dOptions&) {}));
  EXPECT_FALSE(takes(c, [](Case& k, Conv2dOptions&) { k.in = 12; }));
  EXPECT_FALSE(takes(c, [](Case& k, Conv2dOptions&) { k.out = 12; }));
  EXPECT_FALSE(takes(c, [](Case& k, Conv2dOptions&) { k.groups = 2; }));
  EXPECT_FALSE(takes(c, [](Case& k, Conv2dOptions&) { k.stride[1] = 9; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.input_layout = Layout::nchw; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.input = DType::f32; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.output = DType::bf16; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.precision = Precision::fp32; }));
  EXPECT_FALSE(takes(c, [](Case&, Conv2dOptions& o) { o.pool = PoolGeometry{}; }));
}

}  // namespace
}  // namespace lamina::cuda
