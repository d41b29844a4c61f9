// Layers over tokens, as an MLP-Mixer has them, multiply images that stay channels first.

#include <cmath>
#include <string>

#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/networks.h"
#include "support/on_gpu.h"

namespace lamina::tokens_test {
namespace {

class CudaTokens : public test::OnGpu {};
LAMINA_ON_GPUS(CudaTokens);

constexpr std::int64_t images = 3;

struct Builder {
  Graph g;
  int count = 0;

  Value constant(Tensor value) {
    return g.add("c" + std::to_string(++count), Constant(std::move(value)), std::initializer_list<Value>{});
  }
  Value op(const char* what, std::vector<Value> inputs, Attributes attributes = {}) {
    return g.add("n" + std::to_string(++count), std::make_shared<Op>(what, std::move(attributes)), inputs);
  }
  Value turned(Value x) { return op("Transpose", {x}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}}); }
  Value linear(Value x, std::int64_t in, std::int64_t out, unsigned seed) {
    Tensor weight = test::random_tensor({in, out}, seed);
    for (float& w : weight.values<float>()) w /= std::sqrt(static_cast<float>(in));
    return op("Add", {op("MatMul", {x, constant(weight)}), constant(test::random_tensor({out}, seed + 1))});
  }
};

/// Two layers with a function between and a sum behind. `seen`: somebody reads the first turned.
Graph mixer(std::int64_t tokens, std::int64_t channels, bool seen) {
  Builder b;
  const Value x = b.g.input("x", {batch, tokens, channels});
  const Value first = b.op("Gelu", {b.linear(b.turned(x), tokens, 40, 1)});
  b.g.output(b.op("Add", {x, b.turned(b.linear(first, 40, tokens, 3))}));
  if (seen) b.g.output(b.op("Neg", {first}));
  return std::move(b.g);
}

TEST_P(CudaTokens, AreMultipliedAsTheyLie) {
  for (const std::int64_t channels : {64, 24}) {
    for (const bool seen : {false, true}) {
      const Graph g = mixer(49, channels, seen);
      const Tensor inputs[] = {test::random_tensor({images, 49, channels}, 9)};
      Plan exact = g.compile({.batch = images});
      Plan plan = g.compile({.device = gpu(), .batch = images, .precision = Precision::fp16});
      const auto expected = exact.run(inputs), found = plan.run(inputs);
      for (std::size_t o = 0; o < expected.size(); ++o) {
        const auto want = expected[o].values<float>(), got = found[o].values<float>();
        for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-2f) << channels << ' ' << seen;
      }
    }
  }
}

/// Channels by eights are as they lie; 9 of them are no whole packs. What is turned for another reader, or is f32, is
/// what it was.
TEST(TokensOnAnyGpu, NothingIsTurned) {
  const auto summary = [](const Graph& g, Precision precision) {
    CompileOptions options = {.device = Device::cuda(), .batch = images, .precision = precision};
    options.description = test::h200();
    return g.plan_summary(options);
  };
  const auto count = [](const std::string& text, std::string_view part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string found = summary(mixer(49, 64, false), Precision::fp16);
  EXPECT_EQ(count(found, "planes"), 2) << found;
  EXPECT_EQ(count(found, "map (turn)"), 0) << found;
  const std::string seen = summary(mixer(49, 64, true), Precision::fp16);
  EXPECT_EQ(count(seen, "planes"), 2) << seen;
  EXPECT_EQ(count(summary(mixer(49, 9, false), Precision::fp16), "planes"), 0);
  EXPECT_EQ(count(summary(mixer(49, 64, false), Precision::fp32), "planes"), 0);
}

}  // namespace
}  // namespace lamina::tokens_test
