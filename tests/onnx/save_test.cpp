// Networks as .onnx files, read back.

#include <map>

#include "compile/eight_bits.h"
#include "lamina/graph/model.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/pool2d.h"
#include "lamina/layers/views.h"
#include "lamina/onnx/file/proto.h"
#include "lamina/onnx/onnx.h"
#include "lamina/ops/element_type.h"
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
  graph.output(graph.add("norm", BatchNorm2d({.channels = 3}), graph.input("x", {batch, 3, 4, 4})));
  expect_error([&] { save_onnx(dir / "net.onnx", graph); }, {"norm", "batch_norm2d", "is not written to .onnx files"});
  EXPECT_FALSE(std::filesystem::exists(dir / "net.onnx"));
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
