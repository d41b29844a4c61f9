// Moves in place on a GPU: attention reads queries, keys and values, a gated unit its halves, out of one linear layer's
// product.

#include <string>

#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/networks.h"
#include "support/on_gpu.h"

namespace lamina::strides_test {
namespace {

class CudaStrides : public test::OnGpu {};
LAMINA_ON_GPUS(CudaStrides);

constexpr std::int64_t images = 3, heads = 3;

struct Builder {
  Graph g;
  int count = 0;

  std::string next() { return "n" + std::to_string(++count); }
  Value constant(Tensor value) { return g.add(next(), Constant(std::move(value)), std::initializer_list<Value>{}); }
  Value op(const char* what, std::vector<Value> inputs, Attributes attributes = {}) {
    return g.add(next(), std::make_shared<Op>(what, std::move(attributes)), inputs);
  }
  Value reshaped(Value x, const std::vector<std::int64_t>& shape) {
    Tensor tensor({static_cast<std::int64_t>(shape.size())}, DType::i64);
    std::ranges::copy(shape, tensor.values<std::int64_t>().begin());
    return op("Reshape", {x, constant(tensor)});
  }
  Value transposed(Value x, const std::vector<std::int64_t>& order) { return op("Transpose", {x}, {{"perm", order}}); }
  Value linear(Value x, std::int64_t in, std::int64_t out, unsigned seed) {
    Tensor weight = test::random_tensor({in, out}, seed);
    for (float& w : weight.values<float>()) w /= std::sqrt(static_cast<float>(in));
    return op("Add", {op("MatMul", {x, constant(weight)}), constant(test::random_tensor({out}, seed + 1))});
  }
  /// As timm's and torchvision's blocks are exported; `depth` elements a head.
  Value attention(Value x, std::int64_t length, std::int64_t depth) {
    const std::int64_t width = heads * depth;
    const Value projected = linear(x, width, 3 * width, 10);
    const Value parts = transposed(reshaped(projected, {-1, length, 3, heads, depth}), {2, 0, 3, 1, 4});
    std::vector<Value> qkv;
    for (std::int64_t i = 0; i < 3; ++i) {
      qkv.push_back(
          op("Gather", {parts, constant(Tensor::from(std::vector{i}, Shape{}))}, {{"axis", std::int64_t{0}}}));
    }
    const Value root = constant(Tensor::from(std::vector{1 / std::sqrt(static_cast<float>(depth))}, Shape{}));
    const Value scores = op("MatMul", {op("Mul", {qkv[0], root}), transposed(qkv[1], {0, 1, 3, 2})});
    const Value mixed = op("MatMul", {op("Softmax", {scores}), qkv[2]});
    return linear(reshaped(transposed(mixed, {0, 2, 1, 3}), {-1, length, width}), width, width, 20);
  }
};

/// But what comes in, where it is to be of 16 bits, and one sum or product of two values that are there.
void expect_nothing_moved(const std::string& summary) {
  const std::string_view map = "map (map)";
  int maps = 0;
  for (std::size_t at = summary.find(map); at != std::string::npos; at = summary.find(map, at + 1)) ++maps;
  EXPECT_LE(maps, 2) << summary;
}

/// Whatever GPU is here, or none.
TEST(StridesOnAnyGpu, AttentionIsOneStepBetweenTwo) {
  for (const DeviceDescription& device : {test::h200(), test::a100()}) {
    Builder b;
    const Value x = b.g.input("x", {batch, 197, heads * 64});
    b.g.output(b.op("Add", {x, b.attention(x, 197, 64)}));
    for (const Precision precision : {Precision::fp32, Precision::fp16}) {
      CompileOptions options = {.device = Device::cuda(), .batch = images, .precision = precision};
      options.description = device;
      const std::string summary = b.g.plan_summary(options);
      EXPECT_NE(summary.find("online softmax"), std::string::npos) << summary;
      expect_nothing_moved(summary);
    }
  }
}

/// Warps share positions where there are few rows, unless the order of sums must not depend on that.
TEST(StridesOnAnyGpu, AttentionOfFewRowsSharesPositions) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{64}}) {
    for (const bool invariant : {false, true}) {
      Builder b;
      const Value x = b.g.input("x", {batch, 197, heads * 64});
      b.g.output(b.attention(x, 197, 64));
      CompileOptions options = {.device = Device::cuda(), .batch = count, .precision = Precision::fp16};
      options.batch_invariant = invariant;
      options.description = test::h200();
      const std::string summary = b.g.plan_summary(options);
      EXPECT_EQ(summary.find("positions shared") != std::string::npos, count == 1 && !invariant) << summary;
    }
  }
}

/// The network's answers in every precision, without a copy, twice.
void expect_nothing_moved(const Graph& g, const Device& gpu, const Tensor& input) {
  const Tensor expected = g.compile({.batch = images, .threads = 1, .fuse = false}).run(input).clone();
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    const CompileOptions options = {.device = gpu, .batch = images, .precision = precision};
    const std::string summary = g.plan_summary(options);
    expect_nothing_moved(summary);
    Plan plan = g.compile(options);
    for (int run = 0; run < 2; ++run) {
      const Tensor found = plan.run(input.clone()).clone();
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < expected.values<float>().size(); ++i) {
        const double p = found.values<float>()[i], q = expected.values<float>()[i];
        error += (p - q) * (p - q), norm += q * q;
      }
      const double bound = precision == Precision::fp32 ? 2e-5 : precision == Precision::bf16 ? 3e-2 : 4e-3;
      EXPECT_LT(std::sqrt(error / norm), bound) << name(precision) << ", run " << run << '\n' << summary;
    }
  }
}

TEST_P(CudaStrides, AttentionMovesNothing) {
  for (const auto& [length, depth] : {std::pair<std::int64_t, std::int64_t>{197, 64}, {5, 4}, {70, 20}, {33, 128}}) {
    Builder b;
    const Value x = b.g.input("x", {batch, length, heads * depth});
    b.g.output(b.op("Add", {x, b.attention(x, length, depth)}));
    expect_nothing_moved(b.g, gpu(), test::random_tensor({images, length, heads * depth}, 5));
  }
}

/// SwiGLU's halves, in runs of whole 16 bytes.
TEST_P(CudaStrides, HalvesOfAGatedUnitAreReadWhereTheyLie) {
  for (const auto& [length, half] : {std::pair<std::int64_t, std::int64_t>{7, 8}, {1, 24}, {197, 72}}) {
    Builder b;
    const Value wide = b.linear(b.g.input("x", {batch, length, 16}), 16, 2 * half, 3);
    std::vector<Value> parts;
    for (const std::int64_t first : {std::int64_t{0}, half}) {
      std::vector<Value> slice = {wide};
      for (const std::int64_t i : {first, first + half, std::int64_t{2}}) {
        slice.push_back(b.constant(Tensor::from(std::vector{i}, {1})));
      }
      parts.push_back(b.op("Slice", slice));
    }
    const Value active = b.op("Mul", {parts[0], b.op("Sigmoid", {parts[0]})});
    b.g.output(b.linear(b.op("Mul", {active, parts[1]}), half, 16, 4));
    expect_nothing_moved(b.g, gpu(), test::random_tensor({images, length, 16}, 5));
  }
}

/// Linear attention: queries times (keys times values), and times the sum of the keys.
Value linear_attention(Builder& b, std::int64_t length, std::int64_t depth) {
  std::vector<Value> qkv;
  for (const char* name : {"q", "k", "v"}) qkv.push_back(b.op("Relu", {b.g.input(name, {batch, 2, length, depth})}));
  Tensor pads({8}, DType::i64), ends({3}, DType::i64);
  std::ranges::fill(pads.values<std::int64_t>(), 0);
  pads.values<std::int64_t>()[7] = 1;
  const Value one = b.constant(Tensor::from(std::vector{1.0f}, Shape{}));
  const Value padded = b.op("Pad", {qkv[2], b.constant(pads), one});
  const Value mixed = b.op("MatMul", {qkv[0], b.op("MatMul", {b.transposed(qkv[1], {0, 1, 3, 2}), padded})});
  const auto part = [&](std::int64_t first, std::int64_t end) {
    std::vector<Value> slice = {mixed};
    for (const std::int64_t i : {first, end, std::int64_t{3}}) {
      slice.push_back(b.constant(Tensor::from(std::vector{i}, {1})));
    }
    return b.op("Slice", slice);
  };
  const Value least = b.constant(Tensor::from(std::vector{1e-6f}, Shape{}));
  return b.op("Div", {part(0, depth), b.op("Add", {part(depth, depth + 1), least})});
}

/// Its sums leave f16: 196 products of keys and values of up to 60 are above 65,504.
TEST_P(CudaStrides, ProductsOfProductsStayF32) {
  Builder b;
  b.g.output(linear_attention(b, 196, 16));
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < 3; ++i) {
    inputs.push_back(test::random_tensor({images, 2, 196, 16}, i));
    for (float& x : inputs.back().values<float>()) x = std::abs(x) * 60;
  }
  const auto answers = [&](const CompileOptions& options) {
    Plan plan = b.g.compile(options);
    return plan.run(std::span<const Tensor>(inputs))[0].clone();
  };
  const Tensor expected = answers({.batch = images}),
               found = answers({.device = gpu(), .batch = images, .precision = Precision::fp16});
  for (std::size_t i = 0; i < expected.values<float>().size(); ++i) {
    const float want = expected.values<float>()[i];
    ASSERT_NEAR(found.values<float>()[i], want, 4e-3f * want);
  }
}

/// 195 filters of which moves take the parts are 200, of which five are zero; four channels are no work for mma.sync.
TEST(StridesOnAnyGpu, OddFiltersAndFewChannels) {
  Builder b;
  const Value x = b.g.input("x", {batch, 196, 96}), wide = b.linear(x, 96, 195, 3);
  for (const auto& [first, end] : {std::pair{0, 96}, {96, 192}, {192, 195}}) {
    std::vector<Value> slice = {wide};
    for (const std::int64_t i : {first, end, 2}) slice.push_back(b.constant(Tensor::from(std::vector{i}, {1})));
    b.g.output(b.op("Slice", slice));
  }
  const Value scores = b.g.input("scores", {batch, 4, 196, 196});
  b.g.output(b.g.add("mixing", Conv2d({.in = 4, .out = 4, .kernel = 1}), scores));
  test::randomize(b.g);
  CompileOptions options = {.device = Device::cuda(), .batch = images, .precision = Precision::fp16};
  options.description = test::h200();
  const std::string summary = b.g.plan_summary(options);
  EXPECT_NE(summary.find("channels_last"), std::string::npos) << summary;
  EXPECT_EQ(summary.find("mma ("), std::string::npos) << summary;
}

}  // namespace
}  // namespace lamina::strides_test
