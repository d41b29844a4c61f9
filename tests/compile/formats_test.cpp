// How a Plan stores activations: what is negotiated and what is converted. For a GPU, which need not be there: the CPU
// has one format. That conversions compute what they should is tests/cuda/layers_test.cpp's business.

#include "compile/fused.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/pool2d.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::test::formats_test {
namespace {

/// Stands in for a layer whose kernels take the layouts it is told, and a ReLU; a pooling where `pools` says so.
class Picky final : public Module {
 public:
  explicit Picky(std::vector<std::pair<Layout, Layout>> layouts, bool pools = false)
      : layouts_(std::move(layouts)), pools_(pools) {}
  std::string_view op() const override { return "picky"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  Absorbed absorb(const Module& next, std::span<const Operand>) const override {
    if (pooled_ || (next.op() != "relu" && next.op() != "max_pool2d")) return {};
    auto longer = std::make_shared<Picky>(*this);
    longer->pooled_ = next.op() == "max_pool2d";
    return {.module = longer};
  }
  bool takes(const Preparation& p) const override {
    const std::pair layouts(p.input().format.layout, p.output().format.layout);
    return (pools_ || !pooled_) && std::find(layouts_.begin(), layouts_.end(), layouts) != layouts_.end();
  }
  std::unique_ptr<Operator> prepare(const Preparation&) const override { return nullptr; }

 private:
  std::vector<std::pair<Layout, Layout>> layouts_;
  bool pools_, pooled_ = false;
};

constexpr std::pair plain = {Layout::nchw, Layout::nchw};
constexpr std::pair nhwc = {Layout::nhwc, Layout::nhwc};

detail::Program program_of(const Graph& graph, CompileOptions options = {.device = Device::cuda()}) {
  options.description = DeviceDescription{.device = options.device};
  return program_before("join", graph, options);
}

/// The layouts of the conversions' results, in order.
std::vector<Layout> converted(const detail::Program& program) {
  std::vector<Layout> layouts;
  for (const auto& op : program.operations) {
    if (op.module->op() == "conversion") layouts.push_back(program.value(op.output).format.layout);
  }
  return layouts;
}

TEST(Formats, ALayerThatTakesOneLayoutOnlyIsGivenIt) {
  Graph g;
  const Value x = g.input("input", {batch, 37, 3, 5});
  const Value a = g.add("a", Picky({nhwc}), x);
  const Value b = g.add("b", Picky({nhwc}), a);
  const Value drop = g.add("drop", Dropout(), b);
  const Value c = g.add("c", Picky({plain}), drop);
  g.output(g.add("flat", Flatten(), c));
  const detail::Program program = program_of(g);
  EXPECT_EQ(converted(program), (std::vector{Layout::nhwc, Layout::nchw}));  // before a, and after drop
  EXPECT_EQ(program.operations[0].module->op(), "conversion");
  EXPECT_EQ(program.value(program.outputs[0]).format, Format{});
  // What is kept for the caller is nchw as well.
  const detail::Program all = program_of(g, {.device = Device::cuda(), .fuse = false, .keep_all = true});
  for (const auto& [name, value] : all.kept) EXPECT_EQ(all.value(value).format, Format{}) << name;
}

TEST(Formats, OneChannelLiesAlikeInBothLayouts) {
  Graph g;
  const Value x = g.input("input", {batch, 1, 3, 5});
  g.output(g.add("a", Picky({nhwc}), x));
  for (const auto& op : program_of(g).operations) EXPECT_EQ(op.view, op.module->op() == "conversion");
}

TEST(Formats, NothingIsConvertedWhereEverybodyAgrees) {
  Graph g;
  const Value x = g.input("input", {batch, 4, 3, 5});
  const Value a = g.add("a", Picky({plain, nhwc}), x);
  g.output(g.add("b", Picky({plain, nhwc}), a));
  EXPECT_TRUE(converted(program_of(g)).empty());
}

TEST(Formats, OneConversionServesAllReaders) {
  Graph g;
  const Value x = g.input("input", {batch, 4, 3, 5});
  const Value a = g.add("a", Picky({nhwc}), x);
  const Value b = g.add("b", Picky({nhwc}), x);
  g.output(g.add("sum", Picky({plain, nhwc}), {a, b}));
  g.output(x);
  EXPECT_EQ(converted(program_of(g)), (std::vector{Layout::nhwc, Layout::nchw}));  // the input once, the sum back
}

TEST(Formats, AFlattenedImageIsInOrder) {
  Graph g;
  const Value x = g.input("input", {batch, 20, 2, 2});
  g.output(g.add("flat", Flatten(), g.add("a", Picky({nhwc}), x)));
  EXPECT_EQ(converted(program_of(g)), (std::vector{Layout::nhwc, Layout::nchw}));
}

TEST(Formats, TheCpuKeepsImagesChannelsLastToo) {
  using List = std::vector<Format>;
  const detail::Program::Value image = {.name = "a", .shape = {1, 4, 3, 5}, .format = {}};
  const detail::Program::Value vector = {.name = "a", .shape = {1, 4}, .format = {}};
  const Format last = {DType::f32, Layout::nhwc};
  const Format short_last = {DType::bf16, Layout::nhwc}, short_planes = {DType::bf16};
  EXPECT_EQ(detail::formats(image, {}), (List{last, {}}));
  EXPECT_EQ(detail::formats(vector, {}), List{{}});
  EXPECT_EQ(detail::formats(image, {.precision = Precision::bf16}), (List{short_last, short_planes, last, {}}));

  Graph g;
  const Value x = g.input("input", {batch, 4, 3, 5});
  g.output(g.add("a", Picky({nhwc}), x));
  EXPECT_EQ(converted(program_of(g, {.threads = 1})), (std::vector{Layout::nhwc, Layout::nchw}));
}

TEST(Formats, PoolingIsFoldedIntoWhatOffersIt) {
  for (const bool offers : {true, false}) {
    Graph g;
    const Value x = g.input("input", {batch, 4, 6, 6});
    const Value r = g.add("relu", ReLU(), g.add("a", Picky({plain}, offers), x));
    const Value p = g.add("pool", MaxPool2d({.kernel = 3, .stride = 2}), r);
    g.output(g.add("relu2", ReLU(), p));
    const detail::Program program = program_of(g, {.batch = 2, .threads = 1});
    ASSERT_EQ(program.operations[0].fused, offers ? "relu, pool" : "relu");
    EXPECT_EQ(program.operations.size(), offers ? 2u : 3u);
    if (!offers) continue;
    EXPECT_EQ(program.value(program.operations[0].output).shape, (Shape{2, 4, 2, 2}));
    EXPECT_EQ(program_of(g, {.batch = 2, .threads = 1, .fuse = false}).operations.size(), 4u);
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

/// Flatten, ONNX's too, dropout and linear become one operation that reads the image; what else reads the flattened
/// elements, or the result of the dropout, keeps its view.
TEST(Formats, ALinearTakesTheFlattenBeforeIt) {
  for (const auto& [shared, of_onnx] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
    Graph g;
    const Value x = g.input("input", {batch, 4, 3, 5});
    const Value a = g.add("same", AdaptiveAvgPool2d({3, 5}), g.add("a", Sigmoid(), x));
    const Value flat = of_onnx ? g.add("flat", Op("Flatten"), a) : g.add("flat", Flatten(), a);
    const Value drop = g.add("drop", Dropout(), flat);
    g.output(g.add("relu", ReLU(), g.add("linear", Linear({.in = 60, .out = 7}), drop)));
    if (shared) g.output(drop);
    randomize(g);
    const detail::Program program = program_of(g, {.batch = 2, .threads = 1});
    const auto& last = program.operations.back();
    EXPECT_EQ(last.name, "linear");
    EXPECT_EQ(last.fused, "relu");
    EXPECT_FALSE(last.view);
    const auto node = std::ranges::find(g.nodes(), "linear", &Graph::Node::name);
    EXPECT_EQ(last.module->parameters()[0].value.raw(), node->module->parameters()[0].value.raw());  // not a copy
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
  const auto flattened = Linear({.in = 60, .out = 7}).after_flatten();
  const Linear& linear = *flattened;
  const Shape image = {2, 4, 3, 5}, other = {2, 4, 3, 6};
  EXPECT_EQ(linear.output_shape({&image, 1}), (Shape{2, 7}));
  expect_error([&] { (void)linear.output_shape({&other, 1}); }, {"linear", "60", "72"});
  const View input = {.shape = image}, output = {.shape = {2, 7}};
  const Preparation preparation = {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu())};
  expect_error([&] { (void)linear.prepare(preparation); }, {"weight"});
}

TEST(Formats, BytesOfAnActivation) {
  EXPECT_EQ(detail::bytes_of({2, 3, 5, 7}, {}), 2u * 3 * 5 * 7 * 4);
  EXPECT_EQ(detail::bytes_of({2, 3, 5, 7}, {DType::f16, Layout::nhwc}), 2u * 3 * 5 * 7 * 2);
  expect_error([] { (void)detail::bytes_of({1ll << 31, 1ll << 31}, {}); }, {"too large"});
}

}  // namespace
}  // namespace lamina::test::formats_test
