// Layers of odd numbers of filters: they get some of zeros, which nobody sees, also where the images are not finite.

#include <cmath>
#include <limits>
#include <string>

#include "lamina/layers/conv2d.h"
#include "lamina/layers/pool2d.h"
#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/networks.h"
#include "support/on_gpu.h"

namespace lamina::odd_channels_test {
namespace {

class CudaOddChannels : public test::OnGpu {};
LAMINA_ON_GPUS(CudaOddChannels);

constexpr std::int64_t images = 3;
constexpr int few = 59, more = 83, side = 14;

struct Builder {
  Graph g;
  int count = 0;

  std::string next() { return "n" + std::to_string(++count); }
  Value op(const char* what, std::vector<Value> inputs, Attributes attributes = {}) {
    return g.add(next(), std::make_shared<Op>(what, std::move(attributes)), inputs);
  }
  Value numbers(const Tensor& values) { return g.add(next(), Constant(values), std::initializer_list<Value>{}); }
  Value conv(Value x, int in, int out, int kernel = 1, int groups = 1) {
    Conv2d layer({.in = in, .out = out, .kernel = kernel, .padding = kernel / 2, .groups = groups});
    // None is below 0, so that infinities stay what they are.
    const auto positive = [](Tensor values, float of) {
      for (float& value : values.values<float>()) value = std::abs(value) * of;
      return values;
    };
    const float of = 1.0f / static_cast<float>(in / groups * kernel * kernel);
    const auto seed = static_cast<unsigned>(++count);
    layer.set_weight(positive(test::random_tensor({out, in / groups, kernel, kernel}, seed), 2 * of));
    layer.set_bias(test::random_tensor({out}, seed + 100));
    return g.add(next(), std::move(layer), x);
  }
  Value clipped(Value x) {
    return op("Clip", {x, numbers(Tensor::from(std::vector{0.0f}, Shape{})),
                       numbers(Tensor::from(std::vector{6.0f}, Shape{}))});
  }
  /// Channels `first` to `end`.
  Value slice(Value x, std::int64_t first, std::int64_t end) {
    std::vector<Value> inputs = {x};
    for (const std::int64_t i : {first, end, std::int64_t{1}})
      inputs.push_back(numbers(Tensor::from(std::vector{i}, {1})));
    return op("Slice", inputs);
  }
  Value gated(Value x, int channels) {
    const Value hidden = op("Relu", {conv(g.add(next(), AdaptiveAvgPool2d(1), x), channels, 9)});
    return op("Mul", {x, op("Sigmoid", {conv(hidden, 9, channels)})});
  }
};

/// A block whose images have `few` channels, its results `more`, of which the first are added to what it reads.
Graph network(bool gate) {
  Builder b;
  const Value image = b.g.input("x", {batch, 16, side, side});
  const Value x = b.clipped(b.conv(image, 16, few));
  const Value wide = b.clipped(b.conv(x, few, 5 * few));
  Value deep = b.conv(wide, 5 * few, 5 * few, 3, 5 * few);
  if (gate) deep = b.gated(deep, 5 * few);
  const Value y = b.conv(b.clipped(deep), 5 * few, more);
  const Value sum = b.op("Add", {b.slice(y, 0, few), x});
  const Value joined = b.op("Concat", {sum, b.slice(y, few, more)}, {{"axis", std::int64_t{1}}});
  const Value scaled = b.op("Mul", {b.clipped(joined), b.numbers(test::random_tensor({more, 1, 1}, 7))});
  b.g.output(b.conv(scaled, more, 24, 3));
  return std::move(b.g);
}

TEST_P(CudaOddChannels, NobodySeesTheChannelsOfZeros) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const bool gate : {false, true}) {
    const Graph g = network(gate);
    Tensor x = test::random_tensor({images, 16, side, side}, 3);
    if (!gate) x.values<float>()[5 * side + 4] = infinity, x.values<float>()[3] = -infinity;
    Plan cpu = g.compile({.batch = images}),
         gpu = g.compile({.device = this->gpu(), .batch = images, .precision = Precision::fp16});
    const Tensor want = cpu.run(std::span<const Tensor>(&x, 1))[0].clone(),
                 found = gpu.run(std::span<const Tensor>(&x, 1))[0].clone();
    float largest = 0;
    for (const float value : want.values<float>()) largest = std::max(largest, std::abs(value));
    ASSERT_TRUE(std::isfinite(largest));  // clips have made numbers of infinities
    for (std::size_t i = 0; i < want.values<float>().size(); ++i)
      ASSERT_NEAR(found.values<float>()[i], want.values<float>()[i], 5e-3f * largest) << i << (gate ? ", a gate" : "");
  }
}

TEST(OddChannelsOnAnyGpu, AreTensorCoresWork) {
  CompileOptions options = {.device = Device::cuda(), .batch = 64, .precision = Precision::fp16};
  options.description = test::h200();
  const std::string summary = network(true).plan_summary(options);
  EXPECT_EQ(summary.find("   mma ("), std::string::npos) << summary;
  EXPECT_NE(summary.find("cluster of "), std::string::npos) << summary;
  EXPECT_EQ(summary.find("Concat"), summary.rfind("Concat")) << summary;  // part of a convolution
}

}  // namespace
}  // namespace lamina::odd_channels_test
