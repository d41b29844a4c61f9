#include <gtest/gtest.h>

#include "lamina/cpu/reference.h"
#include "lamina/lamina.h"
#include "lamina/tensor/device_memory.h"
#include "layer_cases.h"

namespace lamina {
namespace {

class CudaLayers : public testing::Test {
 protected:
  void SetUp() override {
    if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  }
};

Graph graph_of(const test::LayerCase& c) {
  Graph g;
  std::vector<Value> values;
  for (const Tensor& input : c.inputs) values.push_back(g.input(std::to_string(values.size()), input.shape()));
  g.output(g.add("node", c.module, values));
  return g;
}

TEST_F(CudaLayers, AgreeWithTheReference) {
  for (const test::LayerCase& c : test::layer_cases()) {
    const Graph g = graph_of(c);
    Plan plan = g.compile({.device = Device::cuda()});
    Tensor output =
        Tensor::from(std::vector<float>(c.expected.size(), NAN), plan.output_shapes()[0]).to(Device::cuda());
    plan.run_into(c.inputs, {&output, 1});
    const Tensor host = output.to(Device::cpu());
    EXPECT_EQ(test::mismatch(c, host.values<float>()), "") << c.name << " (" << plan.summary() << ')';
  }
}

/// Linear layers of every precision: K terms, each product within the precision's bound of its scale.
TEST_F(CudaLayers, LinearKeepsTheContractInEveryPrecision) {
  for (const Precision precision : {Precision::tf32, Precision::fp16, Precision::bf16}) {
    for (const std::int64_t rows : {1, 5, 16, 17, 64}) {
      Linear linear({.in = 300, .out = 77});
      test::set_parameters(linear, 5);
      const Tensor x = test::drawn({rows, 300}, 6);
      const std::vector<double> truth = test::reference_linear(linear, x);
      Graph g;
      g.output(g.add("linear", linear, g.input("input", x.shape())));
      Plan plan = g.compile({.device = Device::cuda(), .precision = precision});
      const Tensor y = plan.run(x);
      for (std::size_t i = 0; i < truth.size(); ++i) {
        // In 16 bits the operands' own rounding comes on top: truth is of the unrounded ones.
        const double bound = 1.5 * cpu::error_bound(precision, 300, 300 * 0.64 + 3);
        ASSERT_LE(std::abs(static_cast<double>(y.values<float>()[i]) - truth[i]), bound)
            << name(precision) << ", " << rows << " rows, output " << i;
      }
    }
  }
}

TEST_F(CudaLayers, KeepNan) {
  Tensor x = test::drawn({1, 1, 5, 5}, 1);
  x.values<float>()[12] = NAN;
  const Tensor largest = MaxPool2d({.kernel = 3, .stride = 1})(x.to(Device::cuda())).to(Device::cpu());
  for (const float y : largest.values<float>()) EXPECT_TRUE(std::isnan(y));
  const Tensor row = Tensor::from(std::vector<float>{1, NAN, 2}, {1, 3});
  const Tensor none = Softmax()(row.to(Device::cuda())).to(Device::cpu());
  for (const float y : none.values<float>()) EXPECT_TRUE(std::isnan(y));
}

/// Whole networks against the CPU, node by node and fused.
TEST_F(CudaLayers, NetworksAgreeWithTheCpu) {
  for (const char* name : {"tiny-alexnet", "tiny-resnet", "layers"}) {
    const std::string golden = std::string(LAMINA_TEST_DATA) + "/golden/" + name;
    const Model model = load_model(golden + ".safetensors");
    const Weights expected = Weights::open(golden + "-golden.safetensors");
    std::vector<Tensor> inputs;
    for (const int node : model.graph.inputs()) {
      inputs.push_back(expected.at(model.graph.nodes()[static_cast<std::size_t>(node)].name));
    }
    for (const bool fuse : {true, false}) {
      Plan plan = model.graph.compile({.device = Device::cuda(), .batch = 2, .fuse = fuse});
      plan.run(inputs);
      for (const std::string& output : plan.output_names()) {
        const Tensor a = plan.output(output), b = expected.at(output);
        for (std::size_t i = 0; i < static_cast<std::size_t>(b.numel()); ++i) {
          const float u = a.values<float>()[i], v = b.values<float>()[i];
          const bool same =
              u == v || (std::isnan(u) && std::isnan(v)) || std::abs(u - v) <= 2e-5f + 2e-5f * std::abs(v);
          ASSERT_TRUE(same) << name << ' ' << output << " [" << i << "] is " << u << ", expected " << v;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina
