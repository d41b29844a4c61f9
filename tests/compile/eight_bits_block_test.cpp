// A block of a mobile network in eight bits: what kernels do with codes besides multiplying has the bits of one step
// after the other.

#include "compile/eight_bits.h"
#include "support/devices.h"
#include "support/run_problem.h"

namespace lamina::test {
namespace {

struct Block {
  Build build = {};
  int seed = 10;

  /// Of weights drawn for the sums of so many codes.
  Value conv(Value x, int in, int out, std::int64_t k, std::int64_t stride, std::int64_t groups) {
    const int of_group = in / static_cast<int>(groups);
    const Tensor weights = random_codes({out, of_group, k, k}, DType::i8, static_cast<unsigned>(++seed));
    const float scale = 0.4f / (static_cast<float>(of_group) * static_cast<float>(k));
    const std::int64_t p = k / 2;
    return build.op("Conv", {x, build.dequantize(build.constant(weights), scale / 30, 0, DType::i8)},
                    {{"strides", std::vector<std::int64_t>{stride, stride}},
                     {"pads", std::vector<std::int64_t>{p, p, p, p}},
                     {"group", groups}});
  }
  /// Rounded, and read again.
  Value code(Value x, float scale, std::int64_t zero) {
    return build.dequantize(build.quantize(x, scale, zero, DType::u8), scale, zero, DType::u8);
  }
};

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
  for (const char* const kernel : {"int8_stem", "pair", "with a sum"}) {
    EXPECT_NE(plan.find(kernel), std::string::npos) << kernel << '\n' << plan;
  }
  EXPECT_EQ(plan.find("table of 256"), std::string::npos) << plan;
}

}  // namespace
}  // namespace lamina::test
