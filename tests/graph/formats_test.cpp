// How a Plan stores activations: what is negotiated, what is converted, and that results do not depend on it.

#include <gtest/gtest.h>

#include "graph/networks.h"
#include "lamina/graph/program.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/make_operator.h"
#include "lamina/layers/pool2d.h"
#include "tensor/file_test.h"

namespace lamina {
namespace {

using test::random_tensor;

/// y = 2 x, for the layouts it is told: stands in for a layer with kernels of its own.
class Doubling final : public Module {
 public:
  explicit Doubling(std::vector<std::pair<Layout, Layout>> layouts, bool pools = false)
      : layouts_(std::move(layouts)), pools_(pools) {}
  std::string_view op() const override { return "doubling"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool fuses_relu() const override { return true; }
  bool takes(const Preparation& p) const override {
    const bool known =
        std::find(layouts_.begin(), layouts_.end(), std::pair(p.input.layout, p.output.layout)) != layouts_.end();
    return known && (pools_ || !p.pool);
  }
  std::unique_ptr<Operator> prepare(const Preparation& p) const override {
    EXPECT_TRUE(takes(p));
    // Blocked activations hold 16 channels for every begun block, the last of which must be zeros.
    const auto size = static_cast<std::int64_t>(detail::bytes_of(p.inputs[0], p.input) / sizeof(float));
    const Shape shape = p.inputs[0];
    const bool relu = p.relu, blocked = p.input.layout == Layout::blocked;
    EXPECT_EQ(p.input, p.output);
    return detail::make_operator("doubled", [=](std::span<const Tensor> inputs, Tensor& output, const Execution&) {
      const float* x = detail::floats(inputs[0]);
      float* y = detail::floats(output);
      for (std::int64_t i = 0; i < size; ++i) y[i] = relu && x[i] < 0 ? 0 : 2 * x[i];
      if (!blocked) return;
      const std::int64_t blocks = (shape[1] + 15) / 16, pixels = shape[2] * shape[3];
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t channel = i / (16 * pixels) % blocks * 16 + i % 16;
        EXPECT_TRUE(channel < shape[1] || x[i] == 0.0f) << i;
      }
    });
  }

 private:
  std::vector<std::pair<Layout, Layout>> layouts_;
  bool pools_;
};

constexpr std::pair plain = {Layout::nchw, Layout::nchw};
constexpr std::pair blocked = {Layout::blocked, Layout::blocked};

detail::Program program_of(const Graph& graph, const CompileOptions& options = {.threads = 1}) {
  return detail::negotiate(detail::fuse(graph, options), options);
}

int conversions(const detail::Program& program) {
  int count = 0;
  for (const auto& op : program.operations) count += op.module == nullptr ? 1 : 0;
  return count;
}

TEST(Formats, ALayerThatTakesOneLayoutOnlyIsGivenIt) {
  for (const std::int64_t channels : {1, 3, 16, 37}) {
    Graph g;
    const Value x = g.input("input", {batch, channels, 3, 5});
    const Value a = g.add("a", Doubling({blocked}), x);
    const Value b = g.add("b", Doubling({blocked}), a);
    const Value drop = g.add("drop", Dropout(), b);
    const Value c = g.add("c", Doubling({plain}), drop);
    g.output(g.add("flat", Flatten(), c));
    const detail::Program program = program_of(g);
    EXPECT_EQ(conversions(program), 2);  // to blocked before a, from it after drop
    const Tensor input = random_tensor({2, channels, 3, 5}, 1);
    for (const bool keep_all : {false, true}) {
      Plan plan = g.compile({.batch = 2, .threads = 2, .keep_all = keep_all});
      const Tensor output = plan.run(input);
      for (std::size_t i = 0; i < static_cast<std::size_t>(input.numel()); ++i) {
        ASSERT_EQ(output.values<float>()[i], 8 * input.values<float>()[i]) << i;
        ASSERT_TRUE(!keep_all || plan.activation("b").values<float>()[i] == 4 * input.values<float>()[i]) << i;
      }
    }
  }
}

TEST(Formats, NothingIsConvertedWhereEverybodyAgrees) {
  Graph g;
  const Value x = g.input("input", {batch, 4, 3, 5});
  const Value a = g.add("a", Doubling({plain, blocked}), x);
  g.output(g.add("b", Doubling({plain, blocked}), a));
  EXPECT_EQ(conversions(program_of(g)), 0);
}

TEST(Formats, OneConversionServesAllReaders) {
  Graph g;
  const Value x = g.input("input", {batch, 4, 3, 5});
  const Value a = g.add("a", Doubling({blocked}), x);
  const Value b = g.add("b", Doubling({blocked}), x);
  g.output(g.add("sum", Add(), {a, b}));
  g.output(x);
  EXPECT_EQ(conversions(program_of(g)), 3);  // the input once; a and b back
  Plan plan = g.compile({.threads = 1});
  const std::vector<Tensor> inputs = {random_tensor({1, 4, 3, 5}, 2)};
  const Tensor sum = plan.run(inputs)[0];
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(sum.values<float>()[i], 4 * inputs[0].values<float>()[i]);
}

TEST(Formats, AFlattenedImageIsInOrder) {
  Graph g;
  const Value x = g.input("input", {batch, 20, 2, 2});
  g.output(g.add("flat", Flatten(), g.add("a", Doubling({blocked}), x)));
  const Tensor input = random_tensor({1, 20, 2, 2}, 3);
  Plan plan = g.compile({.threads = 1});
  const Tensor output = plan.run(input);
  for (std::size_t i = 0; i < 80; ++i) EXPECT_EQ(output.values<float>()[i], 2 * input.values<float>()[i]);
}

TEST(Formats, PoolingIsFoldedIntoWhatOffersIt) {
  for (const bool offers : {true, false}) {
    Graph g;
    const Value x = g.input("input", {batch, 4, 6, 6});
    const Value r = g.add("relu", ReLU(), g.add("a", Doubling({plain}, offers), x));
    const Value p = g.add("pool", MaxPool2d({.kernel = 3, .stride = 2}), r);
    g.output(g.add("relu2", ReLU(), p));
    const CompileOptions options = {.batch = 2, .threads = 1};
    const detail::Program program = program_of(g, options);
    ASSERT_EQ(program.operations[0].pool.has_value(), offers);
    EXPECT_EQ(program.operations.size(), offers ? 2u : 3u);
    if (!offers) continue;
    EXPECT_EQ(program.operations[0].fused, "relu, pool");
    EXPECT_EQ(program.value(program.operations[0].output).shape, (Shape{2, 4, 2, 2}));
    EXPECT_EQ(program.operations[0].pool->planes, 8);
    const CompileOptions plainly = {.batch = 2, .threads = 1, .fuse = false};
    EXPECT_EQ(program_of(g, plainly).operations.size(), 4u);
  }
}

TEST(Formats, AViewThatChangesNothingIsNoStep) {
  Graph g;
  const Value x = g.input("input", {batch, 4, 6, 6});
  const Value a = g.add("same", AdaptiveAvgPool2d(6), x);
  g.output(g.add("other", AdaptiveAvgPool2d(3), a));
  Plan plan = g.compile({.threads = 1});
  EXPECT_EQ(plan.profile(std::vector<Tensor>{random_tensor({1, 4, 6, 6}, 1)}, 1).size(), 1u);
}

/// Flatten, dropout and linear become one operation that reads the image; what else reads the flattened elements, or
/// the result of the dropout, keeps its view.
TEST(Formats, ALinearTakesTheFlattenBeforeIt) {
  for (const bool shared : {false, true}) {
    Graph g;
    const Value x = g.input("input", {batch, 4, 3, 5});
    const Value a = g.add("same", AdaptiveAvgPool2d({3, 5}), g.add("a", Doubling({plain}), x));
    const Value drop = g.add("drop", Dropout(), g.add("flat", Flatten(), a));
    g.output(g.add("relu", ReLU(), g.add("linear", Linear({.in = 60, .out = 7}), drop)));
    if (shared) g.output(drop);
    test::randomize(g);
    const detail::Program program = program_of(g, {.batch = 2, .threads = 1});
    const auto& last = program.operations.back();
    EXPECT_EQ(last.name, "linear");
    EXPECT_EQ(last.fused, "relu");
    EXPECT_FALSE(last.view || last.folded);  // the parameters are the graph's own
    EXPECT_EQ(program.value(last.inputs[0]).shape, shared ? Shape({2, 60}) : Shape({2, 4, 3, 5}));
    EXPECT_EQ(program.value(last.output).shape, (Shape{2, 7}));
    EXPECT_EQ(program.operations.size(), shared ? 4u : 3u);

    const std::vector<Tensor> inputs = {random_tensor({2, 4, 3, 5}, 4)};
    Plan fused = g.compile({.batch = 2, .threads = 1});
    Plan plainly = g.compile({.batch = 2, .threads = 1, .fuse = false});
    const Tensor y = fused.run(inputs)[0], expected = plainly.run(inputs)[0];
    for (std::size_t i = 0; i < 14; ++i) EXPECT_EQ(y.values<float>()[i], expected.values<float>()[i]) << i;
  }
}

TEST(Formats, AFlattenedLinearThatDoesNotFitSaysSo) {
  const FlattenedLinear linear(Linear({.in = 60, .out = 7}));
  const Shape image = {2, 4, 3, 5}, other = {2, 4, 3, 6};
  EXPECT_EQ(linear.output_shape({&image, 1}), (Shape{2, 7}));
  test::expect_error([&] { (void)linear.output_shape({&other, 1}); }, {"linear", "60", "72"});
  test::expect_error([&] { (void)linear.prepare({.inputs = {&image, 1}, .device = Device::cpu()}); }, {"weight"});
}

TEST(Formats, BytesOfAnActivation) {
  EXPECT_EQ(detail::bytes_of({2, 3, 5, 7}, {}), 2u * 3 * 5 * 7 * 4);
  EXPECT_EQ(detail::bytes_of({2, 3, 5, 7}, {DType::f16, Layout::nhwc}), 2u * 3 * 5 * 7 * 2);
  EXPECT_EQ(detail::bytes_of({2, 17, 5, 7}, {DType::f32, Layout::blocked}), 2u * 32 * 5 * 7 * 4);
  test::expect_error([] { (void)detail::bytes_of({1ll << 31, 1ll << 31}, {}); }, {"too large"});
}

}  // namespace
}  // namespace lamina
