// A block of a mobile network in eight bits: what kernels do with codes besides multiplying has the bits of one step
// after the other.

#include <cmath>

#include "compile/eight_bits.h"
#include "support/devices.h"
#include "support/run_problem.h"

namespace lamina::test::eight_bits_block_test {
namespace {

Block block() {
  Block b;
  Value x = b.code(b.build.graph.input("x", {batch, 3, 37, 36}), 0.02f, 117);
  x = b.code(b.build.op("HardSwish", {b.code(b.conv(x, 3, 16, 3, 2, 1), 0.03f, 128)}), 0.02f, 12);
  const Value shortcut = x = b.code(b.conv(x, 16, 32, 1, 1, 1), 0.03f, 131);
  x = b.code(b.conv(x, 32, 96, 1, 1, 1), 0.031f, 122);
  x = b.code(b.build.op("Mul", {x, b.code(b.build.op("Sigmoid", {x}), 0.0039f, 0)}), 0.017f, 16);
  x = b.code(b.build.op("HardSwish", {b.code(b.conv(x, 96, 96, 3, 1, 96), 0.02f, 120)}), 0.016f, 20);
  x = b.code(b.conv(x, 96, 32, 1, 1, 1), 0.04f, 126);
  x = b.build.op("Relu", {b.build.op("Add", {x, shortcut})});
  b.build.graph.output(b.build.quantize(x, 0.023f, 0, DType::u8));
  return b;
}

TEST(EightBitsOfABlock, AreThoseOfTheCpusPlainLoops) {
  const Block b = block();
  const Tensor x = draw_floats({3, 3, 37, 36}, 5);
  const auto expected = whole(b.build.graph.compile({.batch = 3, .algorithm = "int8_direct"}).run(x));
  EXPECT_GT(std::ranges::count_if(expected, [](std::int64_t code) { return code > 0 && code < 255; }), 9000);
  for (const Device device : devices_here()) {
    for (const int threads : {1, 3}) {
      Plan plan = b.build.graph.compile({.device = device, .batch = 3, .threads = threads});
      EXPECT_EQ(whole(plan.run(x).to(Device::cpu())), expected) << device << '\n' << plan.summary();
    }
  }
}

/// Whether or not it is here.
TEST(EightBitsOfABlock, AreFewStepsOnAGpu) {
  if (kernels<ConvProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  const std::string plan =
      block().build.graph.plan_summary({.device = Device::cuda(), .batch = 64, .description = h200()});
  for (const char* const kernel : {"int8_stem", "pair", "narrow"}) {
    EXPECT_NE(plan.find(kernel), std::string::npos) << kernel << '\n' << plan;
  }
  EXPECT_EQ(plan.find("elementwise"), std::string::npos) << plan;  // sums are in the ends
  EXPECT_EQ(plan.find("table of 256"), std::string::npos) << plan;
}

/// Squeeze and excitation before a layer to few filters and a sum, and before one to many.
Block gates_block(int channels, std::int64_t height, std::int64_t width, int filters) {
  Block b;
  const auto pixelwise = [&](Value x, int in, int out, float gain, float scale) {
    const auto all = static_cast<float>(in);
    return b.code(b.conv(x, in, out, 1, 1, 1, gain * std::sqrt(all)), scale, 126);
  };
  const auto silu = [&](Value x, float scale, std::int64_t zero) {
    return b.code(b.build.op("Mul", {x, b.code(b.build.op("Sigmoid", {x}), 0.0039f, 0)}), scale, zero);
  };
  const auto gated = [&](Value x, int of, int between) {
    const Value means = b.code(b.build.op("GlobalAveragePool", {x}), 0.006f, 40);
    const Value few = silu(pixelwise(means, of, between, 2, 0.01f), 0.007f, 30);
    const Value factors = b.code(b.build.op("Sigmoid", {pixelwise(few, between, of, 4, 0.02f)}), 0.0039f, 0);
    return b.code(b.build.op("Mul", {factors, x}), 0.01117f, 19);
  };
  const Value input = b.code(b.build.graph.input("x", {batch, channels, height, width}), 0.02f, 117);
  Value x = silu(b.code(b.conv(input, channels, channels, 3, 1, channels), 0.02f, 120), 0.016f, 20);
  x = pixelwise(gated(x, channels, channels / 4), channels, filters, 1, 0.01f);
  x = silu(b.code(b.build.op("Add", {x, pixelwise(input, channels, filters, 1, 0.03f)}), 0.03f, 123), 0.022f, 12);
  x = pixelwise(gated(x, filters, 4), filters, 352, 1, 0.01f);
  b.build.graph.output(b.build.quantize(x, 0.01f, 126, DType::u8));
  return b;
}

TEST(EightBitsOfGates, AreThoseOfTheParts) {
  struct Case {
    int channels;
    std::int64_t height, width;
    int filters;
    std::int64_t images;
  };
  for (const Case& c : {Case{96, 14, 13, 24, 3}, {72, 7, 7, 40, 1}, {8, 3, 2, 16, 5}, {672, 5, 6, 112, 9}}) {
    const Block b = gates_block(c.channels, c.height, c.width, c.filters);
    const Tensor x = draw_floats({c.images, c.channels, c.height, c.width}, 5);
    const auto expected =
        whole(b.build.graph.compile({.batch = c.images, .algorithm = "int8_direct", .fuse = false}).run(x));
    EXPECT_GT(std::ranges::count_if(expected, [](std::int64_t code) { return code > 0 && code < 255; }),
              static_cast<std::int64_t>(expected.size()) / 4);
    for (const Device device : devices_here()) {
      for (const Precision precision : {Precision::fp32, Precision::fp16}) {
        Plan plan = b.build.graph.compile({.device = device, .batch = c.images, .precision = precision});
        EXPECT_EQ(whole(plan.run(x).to(Device::cpu())), expected) << device << '\n' << plan.summary();
      }
    }
  }
}

/// A basic block with groups in its second half: windows over several channels, the last of which ends in a sum.
Block windows_block() {
  Block b;
  Value x = b.code(b.build.graph.input("x", {batch, 36, 19, 17}), 0.02f, 117);
  const Value shortcut = x = b.code(b.conv(x, 36, 48, 3, 2, 1), 0.03f, 131);
  x = b.code(b.build.op("Relu", {b.conv(x, 48, 48, 3, 1, 1)}), 0.02f, 0);
  x = b.code(b.conv(x, 48, 48, 3, 1, 2), 0.04f, 126);
  x = b.build.op("Relu", {b.build.op("Add", {x, shortcut})});
  b.build.graph.output(b.build.quantize(x, 0.023f, 0, DType::u8));
  return b;
}

/// Of a GPU also as if it were older.
TEST(EightBitsOfWindows, AreThoseOfTheCpusPlainLoops) {
  const Block b = windows_block();
  const Tensor x = draw_floats({3, 36, 19, 17}, 5);
  const auto expected = whole(b.build.graph.compile({.batch = 3, .algorithm = "int8_direct"}).run(x));
  EXPECT_GT(std::ranges::count_if(expected, [](std::int64_t code) { return code > 0 && code < 255; }), 2000);
  for (const Device device : devices_here()) {
    for (const int architecture : {0, 80, 75}) {
      CompileOptions options = {.device = device, .batch = 3};
      if (architecture > 0) {
        if (device.is_cpu() || describe(device).architecture <= architecture) continue;
        options.description = detail::limited_to(architecture, describe(device));
      }
      Plan plan = b.build.graph.compile(options);
      EXPECT_EQ(whole(plan.run(x).to(Device::cpu())), expected) << device << '\n' << plan.summary();
    }
  }
}

/// Whether or not it is here.
TEST(EightBitsOfWindows, AreTensorCoresOnAGpu) {
  if (kernels<ConvProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  for (const DeviceDescription& device : {h200(), a100()}) {
    const std::string plan =
        windows_block().build.graph.plan_summary({.device = Device::cuda(), .batch = 64, .description = device});
    int found = 0;
    for (std::size_t at = plan.find("int8_mma"); at != std::string::npos; at = plan.find("int8_mma", at + 1)) ++found;
    EXPECT_EQ(found, device.wgmma ? 1 : 3) << plan;
    EXPECT_EQ(plan.find("int8_direct"), std::string::npos) << plan;
    EXPECT_EQ(plan.find("elementwise"), plan.rfind("elementwise")) << plan;  // sums are in the ends
  }
}

/// Whether or not it is here.
TEST(EightBitsOfGates, AreFactorsWhereALayerMultiplies) {
  if (kernels<ConvProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    const std::string plan =
        gates_block(96, 14, 14, 24)
            .build.graph.plan_summary(
                {.device = Device::cuda(), .batch = 32, .precision = precision, .description = h200()});
    const auto times = [&](std::string_view what) {
      int count = 0;
      for (std::size_t at = plan.find(what); at != std::string::npos; at = plan.find(what, at + 1)) ++count;
      return count;
    };
    EXPECT_EQ(times("cluster of "), 2) << plan;
    EXPECT_EQ(times("factors alone"), 1) << plan;
    EXPECT_EQ(times("narrow (mma.sync): codes, scaled"), 1) << plan;
  }
}

/// A block of ConvNeXt without its norm, whose bits are not promised: rows of pixels, numbers of channels that are f32,
/// a GELU in steps.
Block rows_block(std::int64_t height, std::int64_t width, int channels) {
  Block b;
  const auto numbers = [&](int count, Shape shape, float scale) {
    Tensor t = draw_floats({count}, static_cast<unsigned>(++b.seed));
    for (float& v : t.values<float>()) v *= scale;
    return b.build.constant(t.view(shape));
  };
  const auto product = [&](Value x, int in, int out) {
    const Tensor weights = random_codes({in, out}, DType::i8, static_cast<unsigned>(++b.seed));
    return b.build.op("MatMul", {x, b.build.dequantize(b.build.constant(weights), 0.0003f, 0, DType::i8)});
  };
  const auto alone = [&](float x) { return b.build.constant(scalar(x)); };
  const std::vector<std::int64_t> to_rows = {0, 2, 3, 1}, to_images = {0, 3, 1, 2};
  Value x = b.code(b.build.graph.input("x", {batch, channels, height, width}), 0.02f, 117);
  const Value shortcut = x = b.code(b.conv(x, channels, channels, 7, 1, channels), 0.02f, 131);
  x = b.code(b.build.op("Transpose", {x}, {{"perm", to_rows}}), 0.02f, 131);
  x = b.code(product(x, channels, 4 * channels), 0.02f, 120);
  const Value wide = x = b.code(b.build.op("Add", {numbers(4 * channels, {4 * channels}, 0.3f), x}), 0.021f, 125);
  x = b.code(b.build.op("Erf", {b.build.op("Div", {x, alone(1.41421354f)})}), 0.0079f, 128);
  x = b.code(b.build.op("Mul", {wide, b.code(b.build.op("Add", {x, alone(1)}), 0.0079f, 0)}), 0.03f, 60);
  x = b.code(b.build.op("Mul", {x, alone(0.5f)}), 0.015f, 40);
  x = b.code(product(x, 4 * channels, channels), 0.03f, 122);
  x = b.code(b.build.op("Add", {x, numbers(channels, {channels}, 0.3f)}), 0.031f, 119);
  x = b.code(b.build.op("Transpose", {x}, {{"perm", to_images}}), 0.031f, 119);
  x = b.code(b.build.op("Mul", {numbers(channels, {channels, 1, 1}, 0.7f), x}), 0.02f, 128);
  x = b.conv(b.code(b.build.op("Add", {x, shortcut}), 0.03f, 128), channels, channels, 3, 1, channels);
  b.build.graph.output(b.build.quantize(x, 0.03f, 128, DType::u8));
  return b;
}

/// Of 32 channels, of which TMA stores whole pixels, of 36, and of so few rows that blocks share the sums.
TEST(EightBitsOfRows, AreThoseOfTheParts) {
  for (const auto& [height, width, channels] : {std::tuple{19, 23, 32}, {9, 11, 36}, {2, 3, 96}}) {
    const Block b = rows_block(height, width, channels);
    const Tensor x = draw_floats({3, channels, height, width}, 5);
    const auto expected = whole(b.build.graph.compile({.batch = 3, .algorithm = "int8_direct", .fuse = false}).run(x));
    EXPECT_GT(std::ranges::count_if(expected, [](std::int64_t code) { return code > 0 && code < 255; }),
              static_cast<std::int64_t>(expected.size()) / 2);
    for (const Device device : devices_here()) {
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {  // numbers stay f32
        Plan plan = b.build.graph.compile({.device = device, .batch = 3, .precision = precision});
        EXPECT_EQ(whole(plan.run(x).to(Device::cpu())), expected) << device << '\n' << plan.summary();
      }
    }
  }
}

/// Whether or not it is here.
TEST(EightBitsOfRows, AreNotMovedOnAGpu) {
  if (kernels<ConvProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  const std::string plan =
      rows_block(56, 56, 96)
          .build.graph.plan_summary(
              {.device = Device::cuda(), .batch = 64, .precision = Precision::fp16, .description = h200()});
  for (const char* const none : {"table of 256", "copies", "f16 ", "implicit_gemm"}) {
    EXPECT_EQ(plan.find(none), std::string::npos) << none << '\n' << plan;
  }
  const std::size_t first = plan.find("rounded again");
  EXPECT_NE(first, std::string::npos) << plan;
  EXPECT_NE(plan.find("rounded again", first + 1), std::string::npos) << plan;
}

/// Norms keep bounds, not bits: the code beside is right too.
TEST(EightBitsOfANorm, AreWithinOneOfThoseOfFloats) {
  for (const int length : {40, 96, 384, 768}) {
    Block b;
    const Value x = b.code(b.build.graph.input("x", {batch, 7, length}), 0.02f, 117);
    const Value scale = b.build.constant(draw_floats({length}, 1)), shift = b.build.constant(draw_floats({length}, 2));
    const Value y = b.build.op("LayerNormalization", {x, scale, shift}, {{"axis", std::int64_t{-1}}});
    b.build.graph.output(b.build.quantize(y, 0.03f, 120, DType::u8));
    const Tensor input = draw_floats({3, 7, length}, 5);
    const auto expected = whole(b.build.graph.compile({.batch = 3, .keep_all = true}).run(input));
    for (const Device device : devices_here()) {
      Plan plan = b.build.graph.compile({.device = device, .batch = 3});
      const auto found = whole(plan.run(input).to(Device::cpu()));
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_LE(std::abs(found[i] - expected[i]), 1) << i << '\n' << plan.summary();
    }
  }
}

}  // namespace
}  // namespace lamina::test::eight_bits_block_test
