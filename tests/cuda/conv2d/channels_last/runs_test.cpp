// How the channels-last convolution runs: the same every time, in graphs, beside other kernels; what it refuses.

#include "cuda/conv2d/channels_last/harness.h"
#include "cuda/runtime/overlap_harness.h"
#include "lamina/cuda/runtime/stream.h"

namespace lamina::test::runs_test {
namespace {

TEST_F(ChannelsLast, SameBitsEveryRun) {
  const ConvGeometry g = geometry_of(nhwc_cases[3]);
  for (const Precision precision : precisions) {
    const ConvData data = draw(g, normal, normal, 43);
    for (const Tuning& tuning : {Tuning{}, {.splits = 7, .multicast = 1}, {.splits = 1, .multicast = 2}}) {
      const KernelOptions options = options_for(precision, false, tuning);
      const auto first = run_bytes(g, options, data, true);
      for (int repeat = 0; repeat < 3; ++repeat) ASSERT_EQ(first, run_bytes(g, options, data, true));
      if (reduced()) break;
    }
  }
}

TEST_F(ChannelsLast, RunsInAGraphOnOtherBuffers) {
  const ConvGeometry g = geometry_of(nhwc_cases[0]);
  const KernelOptions options = options_for(Precision::fp16);
  const ConvData data = draw(g, normal, normal, 17);
  const Prepared kernel = prepare(g, options, data, true);
  const auto first = run_bytes(g, options, data, true);
  const GuardedBuffer input(to_bytes(data.x, kernel.input.shape, kernel.input.format));
  const GuardedBuffer a(first.size()), b(first.size());
  const cuda::OwnedStream stream(0);
  const cuda::CapturedGraph graph(0, [&](cuda::Stream s) {
    kernel.enqueue(input.data(), a.data(), nullptr, s);
    kernel.enqueue(input.data(), b.data(), nullptr, s);
  });
  graph.launch(stream.get());
  cuda::synchronize(0, stream.get());
  EXPECT_EQ(a.read(), first);
  EXPECT_EQ(b.read(), first);
}

// Blocks of a kernel begin beside those of the one before it: with its weights, but not before its result.
TEST_F(ChannelsLast, LayersOverlapWithoutRunningAhead) {
  for (const Precision precision : precisions) {
    const KernelOptions options = options_for(precision, true);
    std::vector<Prepared> layers;
    std::vector<cuda::Buffer> values, workspaces;
    const auto add = [&](const Case& c) {
      const ConvGeometry g = geometry_of(c);
      const ConvData data = draw(g, normal, normal, static_cast<unsigned>(layers.size()) + 90);
      layers.push_back(prepare(g, options, data, true));
      workspaces.emplace_back(0, layers.back().op->workspace_bytes());
      if (values.empty()) values.emplace_back(0, layers.back().input_bytes());
      values.emplace_back(0, layers.back().output_bytes());
    };
    add(conv("64x13x13 -> 192, k 3, p 1"));
    add(conv("192x13x13 -> 384, k 3, p 1"));
    add(conv("384x13x13 -> 256, k 3, p 1"));
    add(conv("256x13x13 -> 256, k 3, p 1"));
    add(conv("256x13x13 -> 64"));
    const cuda::OwnedStream stream(0);
    const auto run_layer = [&](std::size_t layer, cuda::Stream s) {
      layers[layer].enqueue(values[layer].data(), values[layer + 1].data(), workspaces[layer].data(), s);
    };
    const cuda::CapturedGraph graph(0, [&](cuda::Stream s) {
      for (std::size_t layer = 0; layer < layers.size(); ++layer) run_layer(layer, s);
    });
    for (unsigned input = 0; input < (reduced() ? 1 : 20); ++input) {
      std::mt19937 random(input);
      const View& first = layers[0].input;
      std::vector<float> x(static_cast<std::size_t>(first.shape.numel()));
      for (float& v : x) v = normal(random);
      const auto bytes = to_bytes(x, first.shape, first.format);
      cuda::upload(0, values[0].data(), bytes.data(), bytes.size(), stream.get());
      expect_no_running_ahead(values, run_layer, graph, 1, stream.get(),
                              detail::concat(name(precision), ", input ", input));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(ChannelsLast, RefusesWhatItCannotDo) {
  const auto taken = [](Case c, const auto& change) {
    KernelOptions options = options_for(Precision::fp16);
    change(c, options);
    return takes(geometry_of(c), options);
  };
  const Case c = nhwc_cases[1];
  EXPECT_TRUE(taken(c, [](Case&, KernelOptions&) {}));
  EXPECT_FALSE(taken(c, [](Case& k, KernelOptions&) { k.in = 12; }));
  EXPECT_FALSE(taken(c, [](Case& k, KernelOptions&) { k.out = 12; }));
  EXPECT_FALSE(taken(c, [](Case& k, KernelOptions&) { k.groups = 2; }));
  const Case groups = conv("128x8x8 -> 128, k 3, p 1, g 2");
  EXPECT_TRUE(taken(groups, [](Case&, KernelOptions&) {}));
  EXPECT_FALSE(taken(groups, [](Case& k, KernelOptions&) { k.in = 160; }));
  EXPECT_FALSE(taken(groups, [](Case& k, KernelOptions&) { k.out = 160; }));
  EXPECT_FALSE(taken(groups, [](Case&, KernelOptions& o) { o = options_for(Precision::tf32); }));
  EXPECT_FALSE(taken(c, [](Case& k, KernelOptions&) { k.stride[1] = 9; }));
  EXPECT_FALSE(taken(c, [](Case&, KernelOptions& o) { o.input.layout = Layout::nchw; }));
  EXPECT_FALSE(taken(c, [](Case&, KernelOptions& o) { o.input.dtype = DType::f32; }));
  EXPECT_FALSE(taken(c, [](Case&, KernelOptions& o) { o.output.dtype = DType::bf16; }));
  EXPECT_FALSE(taken(c, [](Case&, KernelOptions& o) { o.precision = Precision::fp32; }));
  EXPECT_FALSE(taken(c, [](Case&, KernelOptions& o) { o.pool = PoolGeometry{}; }));
}

}  // namespace
}  // namespace lamina::test::runs_test
