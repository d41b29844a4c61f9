// What is said of a model and of the file to write before there are samples.

#include "compile/eight_bits.h"
#include "lamina/quantize/quantizer.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::test::writable_test {
namespace {

TEST(Quantize, SaysOfTheModelAloneWhatCannotBe) {
  Build build;
  Value y =
      build.op("Conv", {build.graph.input("x", {batch, 3, 8, 8}), build.constant(random_tensor({4, 3, 3, 3}, 1))});
  y = build.op("Flatten", {build.op("GlobalAveragePool", {y})});
  build.graph.output(y);
  Model model;
  model.graph = std::move(build.graph);
  require_quantizable(model, "net.onnx");
  expect_error([&] { require_quantizable(model, "net.tflite"); }, {"ends in .safetensors or .onnx", "net.tflite"});
  model.labels = {"cat", "dog"};
  expect_error([&] { require_quantizable(model); }, {"labels", "expected 4", "got 2"});
  model.labels.clear();
  const Op roll("Roll", {{"axes", std::int64_t{1}}, {"shifts", std::int64_t{1}}});
  model.graph.output(model.graph.add("rolled", roll, y));
  require_quantizable(model, "net.safetensors");
  expect_error([&] { require_quantizable(model, "net.onnx"); }, {"rolled: Roll is not written"});
}

}  // namespace
}  // namespace lamina::test::writable_test
