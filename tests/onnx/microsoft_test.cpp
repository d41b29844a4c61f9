// ONNX Runtime's own ops in the terms of ONNX's, one case for each.

#include "onnx/imported.h"
#include "support/onnx_writer.h"

namespace lamina::test::onnx::microsoft_test {
namespace {

detail::onnx::Imported import_node(Node node) {
  node.domain = "com.microsoft";
  const Graph g{.nodes = {std::move(node)}, .initializers = {floats("w", {1}, {1}), floats("b", {1}, {1})}};
  return import_bytes(onnx::model(g, 17, Message().message(8, opset(1, "com.microsoft"))));
}

std::string ops_of(const Node& node) { return ops(import_node(node)); }

TEST(OnnxMicrosoft, ActivationsStandBehindWhatTheyWereFusedWith) {
  EXPECT_EQ(ops_of({"FusedConv", {"x", "w"}, {"y"}}), "y: Conv(x, w)\n");
  EXPECT_EQ(ops_of({"FusedConv", {"x", "w", "b"}, {"y"}, {attribute("activation", "Relu"), attribute("group", 1)}}),
            "y/result: Conv(x, w, b) group=1\ny: Relu(y/result)\n");
  EXPECT_EQ(ops_of({"FusedConv", {"x", "w", "", "x"}, {"y"}, {attribute("activation", "Tanh"), attribute("group", 1)}}),
            "y/conv: Conv(x, w) group=1\ny/result: Add(y/conv, x)\ny: Tanh(y/result)\n");
  EXPECT_EQ(ops_of({"FusedConv",
                    {"x", "w"},
                    {"y"},
                    {attribute("activation", "Clip"), attribute("activation_params", std::vector<float>{0, 6})}}),
            "y/result: Conv(x, w)\ny: Clip(y/result, y/min, y/max)\n");
  EXPECT_EQ(ops_of({"FusedGemm",
                    {"x", "w", "b"},
                    {"y"},
                    {attribute("activation", "HardSigmoid"), attribute("activation_alpha", 0.25f),
                     attribute("activation_beta", 0.5f), attribute("transB", 1)}}),
            "y/result: Gemm(x, w, b) transB=1\ny: HardSigmoid(y/result) alpha=0.25, beta=0.5\n");
  expect_error(
      [] {
        import_node({"FusedConv", {"x", "w"}, {"y"}, {attribute("activation", "Swish")}});
      },
      {"com.microsoft.FusedConv (opset 1)", "there is no activation Swish"});
}

TEST(OnnxMicrosoft, FunctionsAndProducts) {
  EXPECT_EQ(ops_of({"Gelu", {"x"}, {"y"}}), "y: Gelu(x)\n");
  EXPECT_EQ(ops_of({"BiasGelu", {"x", "b"}, {"y"}}), "y/sum: Add(x, b)\ny: Gelu(y/sum)\n");
  EXPECT_EQ(ops_of({"FastGelu", {"x"}, {"y"}}), "y: Gelu(x) approximate=tanh\n");
  EXPECT_EQ(ops_of({"QuickGelu", {"x"}, {"y"}}), "y: Swish(x) alpha=1.702\n");
  EXPECT_EQ(ops_of({"SkipLayerNormalization", {"x", "x", "w"}, {"norm", "", "", "y"}}),
            "y: SkipLayerNormalization(x, x, w) output=3\n");
  EXPECT_EQ(ops_of({"DynamicQuantizeMatMul", {"x", "w", "b"}, {"y"}}),
            "y/codes_0: DynamicQuantizeLinear(x) output=0\ny/codes_1: DynamicQuantizeLinear(x) output=1\n"
            "y/codes_2: DynamicQuantizeLinear(x) output=2\ny/sums: MatMulInteger(y/codes_0, w, y/codes_2)\n"
            "y/floats: Cast(y/sums) to=1\ny/scale: Mul(y/codes_1, b)\ny: Mul(y/floats, y/scale)\n");
  EXPECT_EQ(ops_of({"MatMulIntegerToFloat", {"x", "w", "b", "b", "", "", "w"}, {"y"}}),
            "y/sums: MatMulInteger(x, w)\ny/floats: Cast(y/sums) to=1\ny/scale: Mul(b, b)\n"
            "y/product: Mul(y/floats, y/scale)\ny: Add(y/product, w)\n");
}

TEST(OnnxMicrosoft, AttentionWithItsProjections) {
  EXPECT_EQ(ops_of({"Attention", {"x", "w", "b", "x"}, {"y"}, {attribute("num_heads", 4)}}),
            "y/product: MatMul(x, w)\ny/sum: Add(y/product, b)\n"
            "y/part_0: Split(y/sum) axis=-1, output=0, num_outputs=3\n"
            "y/part_1: Split(y/sum) axis=-1, output=1, num_outputs=3\n"
            "y/part_2: Split(y/sum) axis=-1, output=2, num_outputs=3\n"
            "y: MultiHeadAttention(y/part_0, y/part_1, y/part_2, -, x) num_heads=4\n");
  expect_error(
      [] {
        import_node({"Attention", {"x", "w", "b", "", "x"}, {"y"}, {attribute("num_heads", 4)}});
      },
      {"a past are not supported"});
}

}  // namespace
}  // namespace lamina::test::onnx::microsoft_test
