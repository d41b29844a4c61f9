// What a GPU has no kernel for, which a Plan for it computes on the host.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/graph/graph.h"
#include "lamina/layers/conv2d.h"
#include "lamina/ops/op.h"
#include "support/devices.h"
#include "support/on_gpu.h"
#include "support/plans/seeded_network.h"

namespace lamina::test::on_host_test {
namespace {

class CudaOnHost : public OnGpu {};
LAMINA_ON_GPUS(CudaOnHost);

/// Adds one, on a CPU alone; throws for a number above 100.
class AddOne final : public Module {
 public:
  std::string_view op() const override { return "add_one"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation& p) const override { return p.device.device.is_cpu() && p.is_plain(); }
  std::unique_ptr<Operator> prepare(const Preparation& p) const override {
    if (!takes(p)) throw Error("add_one: runs on a CPU");
    return std::make_unique<Run>();
  }

 private:
  struct Run final : Operator {
    std::string description() const override { return "one by one"; }
    void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
      const std::span<const float> x = inputs[0].values<float>();
      const std::span<float> y = outputs[0].values<float>();
      execution.parallel_for(std::ssize(x), [&](std::int64_t i, int) {
        const auto at = static_cast<std::size_t>(i);
        if (x[at] > 100) throw Error("add_one: expected at most 100");
        y[at] = x[at] + 1;
      });
    }
  };
};

/// relu(x) + 1, times two, of images [2, 3, 4, 5] around it.
Graph around() {
  Graph g;
  const Value x = g.input("x", {batch, 3, 4, 5});
  const Value one = g.add("one", AddOne(), g.add("relu", Op("Relu"), x));
  g.output(g.add("twice", Op("Add"), {one, one}));
  return g;
}

Tensor images(float value) { return Tensor::from(std::vector<float>(120, value), {2, 3, 4, 5}); }

TEST_P(CudaOnHost, ALayerForACpuRunsInAPlanForAGpu) {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    Plan plan = around().compile({.device = gpu(), .batch = 2, .precision = precision});
    EXPECT_NE(plan.summary().find("on the host: one by one"), std::string::npos) << plan.summary();
    Tensor x = images(3);
    for (int run = 0; run < 4; ++run) {  // the third is replayed from a captured graph
      const float value = static_cast<float>(run) - 1;
      x.copy_from(images(value));
      EXPECT_EQ(plan.run(x).values<float>()[119], 2 * (std::max(value, 0.0F) + 1)) << run;
    }
  }
}

TEST_P(CudaOnHost, WhatItThrowsIsThrownOnceTheRunIsDone) {
  Plan plan = around().compile({.device = gpu(), .batch = 2});
  const Tensor good = images(1), bad = images(200);
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(plan.run(good).values<float>()[0], 4);
    try {
      (void)plan.run(bad);
      ADD_FAILURE() << "no Error";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), "one: add_one: expected at most 100");
    }
  }
  EXPECT_EQ(plan.run(good).values<float>()[0], 4);
}

TEST_P(CudaOnHost, ResultsStayOnTheDeviceAndAPlanMayEndBeforeItsWork) {
  const Tensor x = images(1).to(gpu());
  Tensor kept;
  {
    Plan plan = around().compile({.device = gpu(), .batch = 2});
    const Tensor y = plan.run(x);
    EXPECT_EQ(y.device(), gpu());
    EXPECT_EQ(y.to(Device::cpu()).values<float>()[0], 4);
    for (int run = 0; run < 20; ++run) (void)plan.run(x);
  }
}

/// Small steps behind one on the host, whose operands and results lie turned, flipped and joined where that is no step.
TEST_P(CudaOnHost, WhatIsTurnedAndJoinedThereIsAsOnACpu) {
  Graph g;
  const auto list = [&](std::vector<std::int64_t> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return g.add(detail::concat("list ", g.nodes().size()), Constant(Tensor::from(values, {count})), {});
  };
  const Value places = g.add("places", Op("NonZero"), g.input("x", {4, 5}));
  const Value rows = g.add("rows", Op("Transpose"), places);
  const Value flipped = g.add("flipped", Op("Slice"), {rows, list({1}), list({-3}), list({1}), list({-1})});
  const Value twice = g.add("twice", Op("Add"), {flipped, flipped});
  const Value joined = g.add("joined", Op("Concat", {{"axis", std::int64_t{1}}}), {twice, rows, flipped});
  g.output(joined);
  g.output(g.add("most", Op("ReduceMax", {{"keepdims", std::int64_t{0}}}), {joined, list({0})}));
  g.output(g.add("moved", Op("Add"), {joined, list({1, 2, 3, 4, 5, 6})}));
  Plan here = g.compile({.device = gpu()}), cpu = g.compile();
  std::vector<float> x(20);
  for (int run = 0; run < 4; ++run) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(run)) % 3);
    const Tensor given = Tensor::from(x, {4, 5});
    const auto found = here.run({&given, 1}), wanted = cpu.run({&given, 1});
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(found[i].shape(), wanted[i].shape()) << i;
      EXPECT_TRUE(std::ranges::equal(found[i].values<std::int64_t>(), wanted[i].values<std::int64_t>())) << i;
    }
  }
}

TEST_P(CudaOnHost, CountedOutputsComeDownWhereverInputsAre) {
  Graph g;
  const Value x = g.input("x", {2, 3});
  g.output(g.add("places", Op("NonZero"), x));
  Plan plan = g.compile({.device = gpu()});
  const Tensor given = Tensor::from(std::vector<float>{0, 1, 0, 0, 0, 2}, {2, 3}).to(gpu());
  const Tensor found = plan.run(given);
  ASSERT_EQ(found.shape(), (Shape{2, 2}));
  EXPECT_TRUE(found.device().is_cpu());
  EXPECT_EQ(found.values<std::int64_t>()[3], 2);
}

TEST_P(CudaOnHost, NoConvolutionIsComputedThereInPlaceOfOneThatWasAskedFor) {
  Graph g;
  const Value x = g.add("conv", Conv2d({.in = 3, .out = 4, .kernel = 3}), g.input("x", {batch, 3, 8, 8}));
  g.output(g.add("one", AddOne(), x));
  seed_parameters(g);
  EXPECT_NE(g.compile({.device = gpu(), .algorithm = "direct"}).summary().find("on the host"), std::string::npos);
  EXPECT_THROW((void)g.compile({.device = gpu(), .precision = Precision::fp16, .algorithm = "im2col"}), Error);
}

TEST(OnHostOnAnH200, IsPlannedWithoutOne) {
  const std::string plan = around().plan_summary({.device = Device::cuda(), .batch = 2, .description = h200()});
  EXPECT_NE(plan.find("on the host: one by one"), std::string::npos) << plan;
}

}  // namespace
}  // namespace lamina::test::on_host_test
