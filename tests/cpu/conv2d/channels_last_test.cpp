// The kernels that write channels last, for every instruction set that the machine has.

#include "lamina/cpu/conv2d/channels_last.h"

#include <functional>
#include <ostream>

#include "cpu/conv2d/row_run.h"
#include "lamina/cpu/conv2d/lanes/lanes.h"
#include "support/contract.h"
#include "support/guarded.h"
#include "support/pointwise_reference.h"

namespace lamina::cpu::conv2d_channels_last_test {
namespace {

using test::ConvOperands;
using test::geometry_of;
using test::square;
using test::Values;

/// [N, C, pixels] as [N, pixels, C], or back.
std::vector<float> turned(std::span<const float> values, std::int64_t images, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(values.size());
  for (std::int64_t n = 0, i = 0; n < images; ++n) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column, ++i) {
        result[static_cast<std::size_t>((n * columns + column) * rows + row)] = values[static_cast<std::size_t>(i)];
      }
    }
  }
  return result;
}

struct Kernel {
  std::string name;
  bool from_nchw;
  std::function<bool(const ConvGeometry&)> takes;
  std::function<void(const ConvGeometry&, const Operands&, const Epilogue&, ThreadPool&)> run;
};

void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }

template <class Conv, class K>
void run_conv(const K& kernel, const ConvGeometry& g, const Operands& o, const Epilogue& epilogue, ThreadPool& pool) {
  const Conv conv(g, kernel, pool.threads());
  Guarded<float> packed(whole_lines(conv.packed_size()));
  Guarded<float> workspace(whole_lines(static_cast<std::int64_t>(conv.workspace() / sizeof(float))));
  conv.pack(o.weight, o.bias, packed.data());
  conv.run({o.input, packed.data(), o.residual, o.output}, row_epilogue(epilogue, describe(Device::cpu())), pool,
           workspace.data());
}

std::string named(const char* kernel, InstructionSet set) {
  std::string name = std::string(kernel) + "_" + lamina::name(set);
  std::erase_if(name, [](char c) { return c == '-'; });
  return name;
}

std::vector<Kernel> kernels() {
  std::vector<Kernel> result;
  for (const ChannelsLastKernel& kernel : channels_last_kernels()) {
    result.push_back({named("dense", kernel.set), false, [](const ConvGeometry&) { return true; },
                      [&kernel](auto&&... all) { run_conv<ChannelsLastConv>(kernel, all...); }});
  }
  for (const LanesKernel& kernel : lanes_kernels(DType::f32)) {
    const InstructionSet set = kernel.set;
    result.push_back(
        {named("lanes", set), false,
         [set](const ConvGeometry& g) { return takes_lanes(DType::f32, {.geometry = g}, Run(g, set, 1, {}).p); },
         [set](auto& g, auto& o, auto& epilogue, auto& pool) {
           Run(g, set, pool.threads(), epilogue, o)("lanes", pool);
         }});
    result.push_back({named("first_layer", set), true, [](const ConvGeometry&) { return true; },
                      [set](auto& g, auto& o, auto& epilogue, auto& pool) {
                        Run(g, set, pool.threads(), epilogue, o, Layout::nchw)("planes", pool);
                      }});
  }
  return result;
}

/// Runs on nchw operands, each up to a page's last byte and so at odd addresses: only vectors of the kernel's own may
/// ask for alignment.
std::vector<float> run(const Kernel& kernel, const ConvGeometry& g, const ConvOperands& c, bool biased,
                       const Epilogue& epilogue, std::span<const float> residual, ThreadPool& pool) {
  Guarded<float> input(kernel.from_nchw ? c.input : turned(c.input, g.batch, g.in_channels, g.in_pixels()));
  Guarded<float> weight(c.weight), bias(c.bias);
  Guarded<float> added(turned(residual, residual.empty() ? 0 : g.batch, g.out_channels, g.out_pixels()));
  Guarded<float> output(g.output_size());
  kernel.run(g, {input.data(), weight.data(), biased ? bias.data() : nullptr, added.data(), output.data()}, epilogue,
             pool);
  return turned(output.span(), g.batch, g.out_pixels(), g.out_channels);
}

class CpuChannelsLast : public testing::TestWithParam<Kernel> {};

TEST_P(CpuChannelsLast, KeepsTheContractOnEveryGeometry) {
  ThreadPool pool(3);
  for (const ConvGeometry& g : test::awkward_geometries()) {
    if (!GetParam().takes(g)) continue;
    for (const Values values : {Values::mixed, Values::positive, Values::equal}) {
      const ConvOperands c(g, values);
      const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
      test::expect_contract(g, Precision::fp32, truth, run(GetParam(), g, c, true, {}, {}, pool));
    }
  }
}

/// Geometries that most kernels take, with several blocks, bands and chunks.
std::vector<ConvGeometry> some_geometries() {
  return {
      geometry_of(square(3, 40, 9, 11, 40, 3, 1, 1, 1, 40)),   geometry_of(square(2, 33, 12, 7, 37, 1)),
      geometry_of(square(2, 24, 9, 9, 24, 3, 2, 1, 1, 6)),     geometry_of(square(3, 20, 14, 13, 70, 3, 1, 1)),
      geometry_of(square(2, 32, 7, 9, 192, 3, 1, 1, 1, 2)),    geometry_of(square(1, 600, 16, 17, 40, 1)),
      geometry_of(square(2, 40, 14, 15, 70, 3, 1, 6, 6)),      geometry_of(square(3, 144, 13, 12, 40, 3, 1, 9, 9, 2)),
      geometry_of(square(2, 136, 9, 11, 136, 3, 1, 1, 1, 136))};  // whose channels are shared out
}

TEST_P(CpuChannelsLast, EpilogueIsThatOfItsParts) {
  ThreadPool pool(2);
  const PointwiseStep add = {.function = Pointwise::add, .operand = 1}, relu = {.function = Pointwise::relu};
  const PointwiseStep clip = {.function = Pointwise::clip, .a = -0.5, .b = 0.75}, silu = {.function = Pointwise::silu};
  const PointwiseStep scaled = {.function = Pointwise::mul, .a = 0.5};
  for (const ConvGeometry& g : some_geometries()) {
    if (!GetParam().takes(g)) continue;
    const ConvOperands c(g, Values::mixed);
    const std::vector<float> residual = test::draw(g.output_size(), Values::mixed, 5);
    const std::vector<float> plain = run(GetParam(), g, c, false, {}, {}, pool);
    const std::vector<PointwiseChain> chains = {{relu}, {clip},      {silu},      {scaled, clip},
                                                {add},  {add, relu}, {silu, add}, {add, clip, silu}};
    for (const PointwiseChain& chain : chains) {
      const Epilogue epilogue = {.chain = chain};
      ASSERT_TRUE(epilogue.is_residual());
      if (GetParam().from_nchw && epilogue.reads_operands()) continue;
      const auto found = run(GetParam(), g, c, false, epilogue, residual, pool);
      for (std::size_t i = 0; i < found.size(); ++i) {
        double expected = plain[i];
        for (const PointwiseStep& step : chain) {
          expected = test::reference(step.function, expected, step.operand == 1 ? residual[i] : step.a, step.b);
        }
        ASSERT_NEAR(found[i], expected, 1e-5 * (1 + std::abs(expected))) << test::describe(g) << ": output " << i;
      }
    }
  }
}

TEST_P(CpuChannelsLast, NeitherThreadsNorTheBatchChangeABit) {
  for (ConvGeometry g : some_geometries()) {
    if (!GetParam().takes(g)) continue;
    const ConvOperands c(g, Values::mixed);
    ThreadPool single(1), several(4);
    const std::vector<float> one = run(GetParam(), g, c, true, {}, {}, single);
    EXPECT_EQ(one, run(GetParam(), g, c, true, {}, {}, several)) << test::describe(g);
    ConvOperands last = c;
    last.input.erase(last.input.begin(), last.input.end() - g.in_channels * g.in_pixels());
    g.batch = 1;
    const std::vector<float> alone = run(GetParam(), g, last, true, {}, {}, single);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), one.end() - static_cast<std::ptrdiff_t>(alone.size())));
  }
}

TEST_P(CpuChannelsLast, NanReachesTheWindowsThatHoldItAndNoOthers) {
  ThreadPool pool(2);
  for (const ConvGeometry& g : some_geometries()) {
    if (!GetParam().takes(g)) continue;
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      ConvOperands c(g, Values::positive);
      c.input[static_cast<std::size_t>(g.in_pixels() + 2 * g.in_width + 3)] = poison;  // channel 1, row 2, column 3
      const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
      const auto found = run(GetParam(), g, c, true, {.chain = {{Pointwise::relu}}}, {}, pool);
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(std::isnan(found[i]), std::isnan(truth.value[i])) << test::describe(g) << ": output " << i;
        ASSERT_EQ(std::isinf(found[i]), std::isinf(truth.value[i])) << test::describe(g) << ": output " << i;
      }
    }
  }
}

TEST_P(CpuChannelsLast, AnEmptyBatchIsNothing) {
  ThreadPool pool(2);
  for (const ConvGeometry& g :
       {geometry_of(square(0, 8, 5, 5, 8, 1)), geometry_of(square(0, 8, 5, 5, 8, 3, 1, 1, 1, 8))}) {
    if (!GetParam().takes(g)) continue;
    EXPECT_TRUE(run(GetParam(), g, ConvOperands(g, Values::mixed), true, {}, {}, pool).empty());
  }
}

// Every number of channels from one to past two wide blocks, every width of an output row from one pixel to past two
// tiles; dense, depthwise, and two and four channels a group.
TEST_P(CpuChannelsLast, EveryRemainderOfFiltersAndPixels) {
  ThreadPool pool(2);
  constexpr int most = 67;
  for (int i = 1; i <= most; ++i) {
    for (const int width : {0, 1, 2, 4}) {
      const int groups = width == 0 ? 1 : i;
      const ConvGeometry g = geometry_of({.in_channels = width == 0 ? 2 : i * width,
                                          .height = 4,
                                          .width = 2 * (most - i) + 1,
                                          .out_channels = width == 0 ? i : i * width,
                                          .kernel_height = 3,
                                          .kernel_width = 2,
                                          .stride_height = 2,
                                          .stride_width = 1 + i % 3,
                                          .padding_height = 1,
                                          .padding_width = i % 2,
                                          .groups = groups});
      if (g.out_width < 1 || !GetParam().takes(g) || (GetParam().from_nchw && width > 0)) continue;
      const ConvOperands c(g, Values::mixed);
      const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
      test::expect_contract(g, Precision::fp32, truth, run(GetParam(), g, c, true, {}, {}, pool));
    }
  }
}

TEST_P(CpuChannelsLast, LayersOfNetworksKeepTheContractOnFlatImages) {
  ThreadPool pool(2);
  const ConvGeometry layers[] = {
      geometry_of(square(2, 1024, 5, 7, 40, 1)), geometry_of(square(1, 512, 7, 7, 33, 3, 1, 1)),
      geometry_of(square(1, 48, 31, 33, 48, 17, 1, 8, 1, 48)), geometry_of(square(1, 32, 14, 14, 32, 7, 1, 3, 1, 4))};
  for (const ConvGeometry& g : layers) {
    if (!GetParam().takes(g)) continue;
    const ConvOperands c(g, Values::equal);
    const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
    test::expect_contract(g, Precision::fp32, truth, run(GetParam(), g, c, true, {}, {}, pool));
  }
}

/// Every number of pixels with every number of vectors of filters, the last of them full or not.
TEST(CpuChannelsLastTiles, OfEverySizeKeepTheContract) {
  ThreadPool pool(1);
  for (const ChannelsLastKernel& kernel : channels_last_kernels()) {
    for (int vectors = 1; vectors <= static_cast<int>(kernel.tiles.size()) + 1; ++vectors) {
      for (const int filters : {vectors * kernel.lanes, std::max(1, vectors * kernel.lanes - 1)}) {
        for (int pixels = 1; pixels <= 15; ++pixels) {
          const ConvGeometry g = geometry_of(square(1, 20, 1, pixels, filters, 1));
          const ConvOperands c(g, Values::mixed);
          const auto truth = test::reference_conv2d(g, c.input.data(), c.weight.data(), c.bias.data());
          Guarded<float> input(turned(c.input, 1, 20, pixels)), output(g.output_size());
          run_conv<ChannelsLastConv>(kernel, g, {input.data(), c.weight.data(), c.bias.data(), nullptr, output.data()},
                                     {}, pool);
          test::expect_contract(g, Precision::fp32, truth, turned(output.span(), 1, pixels, filters));
        }
      }
    }
  }
}

/// Channels of larger images, to channels of larger images: the same bits, and no others.
TEST(CpuChannelsLastSlices, AreComputedAsWholeImagesAre) {
  ThreadPool pool(3);
  for (const ChannelsLastKernel& kernel : channels_last_kernels()) {
    for (const ConvGeometry& g : test::awkward_geometries()) {
      const ConvOperands c(g, Values::mixed);
      const std::vector<float> x = turned(c.input, g.batch, g.in_channels, g.in_pixels());
      const std::vector<float> added = test::draw(g.output_size(), Values::mixed, 4);
      const RowEpilogue epilogue = {.adds = true, .low = 0, .rest = {{Pointwise::sigmoid}}};
      const ChannelsLastConv conv(g, kernel, pool.threads());
      Guarded<float> packed(whole_lines(conv.packed_size()));
      Guarded<float> workspace(whole_lines(static_cast<std::int64_t>(conv.workspace() / sizeof(float))));
      conv.pack(c.weight.data(), c.bias.data(), packed.data());
      std::vector<float> expected(static_cast<std::size_t>(g.output_size()));
      conv.run({x.data(), packed.data(), added.data(), expected.data()}, epilogue, pool, workspace.data());
      Slice input(g.batch * g.in_pixels(), g.in_channels, 3);
      Slice residual(g.batch * g.out_pixels(), g.out_channels, 5), output(g.batch * g.out_pixels(), g.out_channels, 5);
      input.put(x), residual.put(added);
      conv.run({input.data(), packed.data(), residual.data(), output.data(), input.pitch(), output.pitch()}, epilogue,
               pool, workspace.data());
      ASSERT_EQ(output.take(), expected) << name(kernel.set);
      ASSERT_TRUE(output.others_untouched()) << name(kernel.set);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CpuChannelsLast, testing::ValuesIn(kernels()), [](auto& k) { return k.param.name; });

}  // namespace
}  // namespace lamina::cpu::conv2d_channels_last_test
