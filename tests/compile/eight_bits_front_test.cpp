// What a network in eight bits begins with: one step on a GPU, with the bits of one step after the other.

#include "compile/eight_bits.h"
#include "support/devices.h"

namespace lamina::test::eight_bits_front_test {
namespace {

/// The front of a network: what it begins with, and a layer behind.
struct Front {
  std::int64_t height, width;
  int filters;
  std::int64_t kernel, stride, padding, window, apart, around, up;  // of the convolution, and of the pooling

  Block build() const {
    Block b;
    Value x = b.code(b.build.graph.input("x", {batch, 3, height, width}), 0.02f, 117);
    const Tensor weights = random_codes({filters, 3, kernel, kernel}, DType::i8, 1);
    x = b.build.op(
        "Conv", {x, b.build.dequantize(b.build.constant(weights), 0.0005f, 0, DType::i8)},
        {{"strides", std::vector<std::int64_t>{stride, stride}}, {"pads", std::vector<std::int64_t>(4, padding)}});
    x = b.code(b.build.op("Relu", {x}), 0.021f, 3);
    x = b.build.op("MaxPool", {x},
                   {{"kernel_shape", std::vector<std::int64_t>{window, window}},
                    {"strides", std::vector<std::int64_t>{apart, apart}},
                    {"pads", std::vector<std::int64_t>(4, around)},
                    {"ceil_mode", up}});
    x = b.code(x, 0.021f, 3);
    b.build.graph.output(b.build.quantize(b.conv(x, filters, 32, 1, 1, 1), 0.03f, 128, DType::u8));
    return b;
  }
};

/// Those of ResNet, SqueezeNet and ShuffleNet, of odd images, and two that no kernel pools.
const Front fronts[] = {{61, 60, 64, 7, 2, 3, 3, 2, 1, 0}, {62, 75, 64, 3, 2, 0, 3, 2, 0, 1},
                        {45, 36, 24, 3, 2, 1, 3, 2, 1, 0}, {33, 250, 96, 7, 2, 2, 3, 2, 0, 1},
                        {40, 44, 32, 3, 2, 1, 2, 2, 0, 0}, {30, 31, 16, 5, 1, 2, 3, 1, 1, 0}};

TEST(EightBitsOfAFront, AreThoseOfTheCpusPlainLoops) {
  for (const Front& front : fronts) {
    const Block b = front.build();
    const Tensor x = draw_floats({3, 3, front.height, front.width}, 5);
    const auto expected = whole(b.build.graph.compile({.batch = 3, .algorithm = "int8_direct"}).run(x));
    for (const Device device : devices_here()) {
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {  // pixels stay f32
        Plan plan = b.build.graph.compile({.device = device, .batch = 3, .precision = precision});
        EXPECT_EQ(whole(plan.run(x).to(Device::cpu())), expected) << device << '\n' << plan.summary();
      }
    }
  }
}

/// Whether or not it is here.
TEST(EightBitsOfAFront, AreOneStepOnAGpu) {
  if (kernels<ConvProblem>(DeviceType::cuda).empty()) GTEST_SKIP() << "this build has no kernels for GPUs";
  for (const std::int64_t images : {1, 64}) {
    for (const Front& front : fronts) {
      const std::string plan = front.build().build.graph.plan_summary(
          {.device = Device::cuda(), .batch = images, .precision = Precision::fp16, .description = h200()});
      const bool pools = front.window == 3 && front.apart == 2;
      EXPECT_EQ(plan.find("elementwise"), std::string::npos) << plan;
      EXPECT_NE(plan.find("int8_stem (mma.sync): from f32"), std::string::npos) << plan;
      EXPECT_EQ(plan.find(" pooled ") != std::string::npos, pools) << plan;
      EXPECT_EQ(plan.find("windows of all channels") == std::string::npos, pools) << plan;
    }
  }
}

}  // namespace
}  // namespace lamina::test::eight_bits_front_test
