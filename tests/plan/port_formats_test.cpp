// CompileOptions::input_format and output_format: what the caller's tensors are made of.

#include "plan/port_formats.h"
#include "lamina/layers/linear.h"
#include "lamina/tensor/parse_format.h"
#include "support/batches.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::test::port_formats_test {
namespace {

TEST(PortFormats, AreRoundedOnce) { expect_ports_rounded_once(Device::cpu(), 1e-5f); }

Graph pointwise_network() {
  Graph g;
  const Value x = g.input("input", {batch, 64, 8, 8});
  g.output(g.add("conv", Conv2d({.in = 64, .out = 64, .kernel = 3, .padding = 1}), x));
  seed_parameters(g);
  return g;
}

/// A kernel that reads and writes what the caller has is all that runs.
TEST(PortFormats, AreNotConvertedWhereTheKernelTakesThem) {
  const Graph graph = pointwise_network();
  const auto conversions = [&](Precision precision, Format format) {
    const std::string summary =
        graph.plan_summary({.precision = precision, .threads = 1, .input_format = format, .output_format = format});
    std::size_t count = 0;
    for (std::size_t at = 0; (at = summary.find("conversion from", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(conversions(Precision::fp32, {DType::f32, Layout::nhwc}), 0u);
  EXPECT_EQ(conversions(Precision::bf16, {DType::bf16, Layout::nhwc}), 0u);
  EXPECT_EQ(conversions(Precision::fp32, {DType::f16, Layout::nhwc}), 2u);
}

TEST(PortFormats, AnInputMayBeAnOutput) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 4, 5});
  g.output(x);
  g.output(g.add("relu", ReLU(), x));
  Plan plan = g.compile({.input_format = {DType::bf16, Layout::nhwc}, .output_format = {DType::f32, Layout::nchw}});
  const Tensor numbers = random_tensor({1, 3, 4, 5}, 1).to(DType::bf16);
  const auto found = plan.run(std::vector<Tensor>{turned(numbers, true)});
  EXPECT_TRUE(same_bits(found[0], numbers.to(DType::f32)));
}

TEST(PortFormats, WhatDoesNotFitIsSaid) {
  const Graph graph = branching_network();
  expect_error([&] { (void)graph.compile({.input_format = {DType::u8}}); }, {"input_format", "f16", "u8"});
  expect_error([&] { (void)graph.compile({.output_format = {DType::i64}}); }, {"output_format", "i64"});
  Plan plan = graph.compile({.input_format = {DType::f16, Layout::nhwc}});
  expect_error(
      [&] {
        (void)plan.run(std::vector<Tensor>{random_tensor({1, 3, 16, 16}, 1)});
      },
      {"input", "f16 [1, 16, 16, 3]", "f32 [1, 3, 16, 16]"});
}

TEST(PortFormats, AreReadAsTheyPrint) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      const Format format = {dtype, layout};
      EXPECT_EQ(parse_format(detail::concat(format)), format);
      EXPECT_EQ(parse_format(detail::concat(name(dtype), ',', name(layout))), format);
    }
    EXPECT_EQ(parse_format(name(dtype)), (Format{dtype, Layout::nchw}));
  }
  for (const char* text : {"", "f64", "nhwc", "f16,", "f16,nhwc,", "f16 hwc", ",nhwc"}) {
    expect_error([&] { (void)parse_format(text); }, {"format", "f16,nhwc"});
  }
}

}  // namespace
}  // namespace lamina::test::port_formats_test
