// Networks as .onnx files, read back.

#include <map>
#include <random>

#include "compile/eight_bits.h"
#include "lamina/graph/model.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/local_response_norm.h"
#include "lamina/layers/pool2d.h"
#include "lamina/layers/softmax.h"
#include "lamina/layers/views.h"
#include "lamina/onnx/file/proto.h"
#include "lamina/onnx/onnx.h"
#include "lamina/ops/element_type.h"
#include "support/networks.h"
#include "support/onnx_writer.h"

namespace lamina::test::save_test {
namespace {

TEST(OnnxSave, IsReadAsTheSameNetwork) {
  Build build;
  const Value x = build.graph.input("x", {batch, 3, 9, open});
  Value y = build.dequantize(build.quantize(x, 0.03f, 119, DType::u8), 0.03f, 119, DType::u8);
  const Value weight = build.constant(random_codes({4, 3, 3, 3}, DType::i8, 1));
  const Value scales = build.constant(Tensor::from(std::vector<float>{0.01f, 0.02f, 0.03f, 0.04f}, {4}));
  const Value meaning = build.op("DequantizeLinear", {weight, scales}, {{"axis", std::int64_t{0}}});
  y = build.op("Conv", {y, meaning}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
  y = build.op("Clip", {y, Value(), build.constant(scalar(2))});
  y = build.op("LeakyRelu", {y}, {{"alpha", 0.3}});
  y = build.graph.add("relu", ReLU(), y);
  y = build.graph.add("pool", MaxPool2d({.kernel = 3, .stride = 2, .padding = {1, 0}}), y);
  build.graph.output(build.graph.add("flat", Flatten(), build.op("GlobalAveragePool", {y})));
  const TemporaryDirectory dir;
  save_onnx(dir / "net.onnx", build.graph);
  const Model read = load_model(dir / "net.onnx");
  EXPECT_EQ(read.graph.nodes()[0].shape, (Shape{batch, 3, 9, open}));
  EXPECT_EQ(read.graph.nodes().back().name, "flat");
  const CompileOptions options = {.batch = 2, .input_shapes = {{"x", {2, 3, 9, 11}}}};
  Tensor image({2, 3, 9, 11});
  for (std::size_t i = 0; float& value : image.values<float>()) value = static_cast<float>(i++ % 37) * 0.2f - 3;
  Plan before = build.graph.compile(options), after = read.graph.compile(options);
  const Tensor expected = before.run(image), found = after.run(image);
  EXPECT_TRUE(std::ranges::equal(found.values<float>(), expected.values<float>()));
  EXPECT_NE(expected.values<float>()[0], 0);
}

/// Every layer of Lamina's that has parameters, and those that are others in ONNX.
TEST(OnnxSave, LayersBecomeOnnxs) {
  lamina::Graph graph;
  Value x = graph.input("x", {batch, 4, 13, 9});
  x = graph.add("conv", Conv2d({.in = 4, .out = 6, .kernel = {3, 2}, .stride = 2, .padding = {1, 2}, .groups = 2}), x);
  x = graph.add("norm", BatchNorm2d({.channels = 6, .eps = 0.5}), graph.add(ReLU(), x));
  x = graph.add("lrn", LocalResponseNorm({.size = 3, .alpha = 0.7, .beta = 0.6, .k = 2}), x);
  x = graph.add("mean", AvgPool2d({.kernel = 2, .stride = 1, .padding = 1, .count_include_pad = false}), x);
  x = graph.add("pool", AdaptiveAvgPool2d({4, 7}), x);
  x = graph.add("flat", Flatten(), graph.add("dropout", Dropout(), x));
  x = graph.add("out", Linear({.in = 168, .out = 5}), x);
  graph.output(graph.add("shares", Softmax(), x));
  const Shape from = graph.nodes()[5].shape->with_batch(1);
  ASSERT_EQ(from, (Shape{1, 6, 8, 7}));  // two rows of it a row of the pool's
  Weights weights;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> range(0.1f, 1.1f);
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    for (const Module::Parameter& parameter : node.module->parameters()) {
      Tensor values(parameter.shape);
      for (float& value : values.values<float>()) value = range(random) - (parameter.name == "weight" ? 0.6f : 0);
      weights.set(node.name + '.' + parameter.name, values);
    }
  }
  graph.load(weights);
  const TemporaryDirectory dir;
  save_onnx(dir / "net.onnx", graph);
  const Model read = load_model(dir / "net.onnx");
  Tensor image({2, 4, 13, 9});
  for (float& value : image.values<float>()) value = range(random) - 0.5f;
  Plan before = graph.compile({.batch = 2}), after = read.graph.compile({.batch = 2});
  const Tensor expected = before.run(image).clone();
  expect_close(after.run(image), expected);
}

/// Of several outputs, of which not all are read; softmax as it was before opset 13; pads of a line; outputs that are
/// no f32.
TEST(OnnxSave, NodesOfSeveralOutputsAreOneOfOnnx) {
  Build build;
  const std::int64_t axis = 1;
  const Value x = build.graph.input("x", {batch, 6, 4});
  const auto split = [&](std::int64_t output, Value of, std::vector<Value> more, Attributes attributes) {
    attributes.emplace_back("axis", axis);
    if (output > 0) attributes.emplace_back("output", output);
    std::vector<Value> inputs = {of};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return build.op("Split", inputs, std::move(attributes));
  };
  const Value sizes = build.constant(Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {3}));
  const Attributes three = {{"num_outputs", std::int64_t{3}}};
  const std::vector<Value> parts = {split(0, x, {}, three), split(2, x, {}, three), split(1, x, {sizes}, {}),
                                    split(0, x, {}, three)};
  const Value k = build.constant(Tensor::from(std::vector<std::int64_t>{2}, {1}));
  const Attributes second = {{"output", std::int64_t{1}}}, third = {{"output", std::int64_t{2}}};
  const std::vector<Value> outputs = {
      build.op("Softmax", {build.op("Concat", parts, {{"axis", axis}})}, {{"axis", axis}, {"flatten", axis}}),
      build.op("TopK", {x, k}, second),
      build.op("TopK", {build.op("LayerNormalization", {x, build.constant(scalar(2))}, third),
                        build.constant(Tensor::from(std::vector<std::int64_t>{1}, {1}))}),
      build.op("DynamicQuantizeLinear", {x}, third),
      build.op("DynamicQuantizeLinear", {x}),
      build.op("Conv", {x, build.constant(random_codes({2, 6, 3}, DType::i8, 1).to(DType::f32))},
               {{"pads", std::vector<std::int64_t>{2, 1}}})};
  for (const Value output : outputs) build.graph.output(output);
  const TemporaryDirectory dir;
  save_onnx(dir / "net.onnx", build.graph);
  const detail::onnx::ModelProto file = detail::onnx::decode(detail::MappedFile::open(dir / "net.onnx"));
  std::map<std::string, std::vector<std::size_t>, std::less<>> written;
  for (const auto& node : file.graph.nodes) written[node.op_type].push_back(node.outputs.size());
  EXPECT_EQ(written["Split"], (std::vector<std::size_t>{3, 3, 3}));  // that of parts 0 and 2, by sizes, 0 again
  EXPECT_EQ(written["TopK"], (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(written["LayerNormalization"], (std::vector<std::size_t>{3}));
  EXPECT_EQ(written["DynamicQuantizeLinear"], (std::vector<std::size_t>{3}));
  EXPECT_EQ(file.graph.outputs[1].data_type, detail::data_type_of(DType::i64));
  EXPECT_EQ(file.graph.outputs[3].data_type, detail::data_type_of(DType::u8));
  const Model read = load_model(dir / "net.onnx");
  Tensor image({2, 6, 4});
  for (std::size_t i = 0; float& value : image.values<float>()) value = static_cast<float>(i++ * 7 % 11) - 5;
  Plan before = build.graph.compile({.batch = 2}), after = read.graph.compile({.batch = 2});
  const auto expected = before.run({&image, 1}), found = after.run({&image, 1});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor a = expected[i].to(DType::f64), b = found[i].to(DType::f64);
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_TRUE(std::ranges::equal(a.values<double>(), b.values<double>())) << i;
  }
}

TEST(OnnxSave, NamesWhatOnnxHasNot) {
  const TemporaryDirectory dir;
  lamina::Graph graph;
  graph.output(graph.add("conv", Conv2d({.in = 3, .out = 2}), graph.input("x", {batch, 3, 4, 4})));
  expect_error([&] { save_onnx(dir / "net.onnx", graph); }, {"conv: weight was never set"});
  EXPECT_FALSE(std::filesystem::exists(dir / "net.onnx"));
  const auto refused = [&](const auto& layer, const Shape& input, const std::string& why) {
    lamina::Graph one;
    one.output(one.add("layer", layer, one.input("x", input)));
    expect_error([&] { save_onnx(dir / "net.onnx", one); }, {"layer: " + why + " is not written to .onnx files"});
  };
  const Shape image = {batch, 3, 4, 4};
  refused(BatchNorm2d({.channels = 3, .affine = false}), image, "batch_norm2d without weight and bias");
  refused(LocalResponseNorm({.size = 4}), image, "local_response_norm over an even number of channels");
  refused(AdaptiveAvgPool2d(3), image, "adaptive_avg_pool2d of windows that are not of one size");
  refused(AdaptiveAvgPool2d(2), {batch, 3, open, 4}, "adaptive_avg_pool2d of windows that are not of one size");
  refused(Linear({.in = 4, .out = 2}), {batch, 3, 4}, "linear of more than two dimensions");
  for (const auto& [op, attributes] :
       {std::pair<const char*, Attributes>{"Roll", {}}, {"Split", {{"num_outputs", std::int64_t{1} << 30}}}}) {
    Build build;
    build.graph.output(build.op(op, {build.graph.input("x", {batch, 4})}, attributes));
    expect_error([&] { save_onnx(dir / "net.onnx", build.graph); }, {op});
  }
  expect_error([&] { save_onnx(dir / "net.pt", lamina::Graph()); }, {"ends in .onnx", "net.pt"});
}

}  // namespace
}  // namespace lamina::test::save_test
