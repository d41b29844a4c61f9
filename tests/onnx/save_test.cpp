// Networks as .onnx files, read back.

#include "compile/eight_bits.h"
#include "lamina/graph/model.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/pool2d.h"
#include "lamina/layers/views.h"
#include "lamina/onnx/onnx.h"
#include "support/onnx_writer.h"

namespace lamina::test {
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

TEST(OnnxSave, NamesWhatOnnxHasNot) {
  const TemporaryDirectory dir;
  lamina::Graph graph;
  graph.output(graph.add("norm", BatchNorm2d({.channels = 3}), graph.input("x", {batch, 3, 4, 4})));
  expect_error([&] { save_onnx(dir / "net.onnx", graph); }, {"norm", "batch_norm2d", "is not written to .onnx files"});
  EXPECT_FALSE(std::filesystem::exists(dir / "net.onnx"));
}

}  // namespace
}  // namespace lamina::test
