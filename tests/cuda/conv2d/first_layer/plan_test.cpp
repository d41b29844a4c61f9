// The host side of the Hopper convolution, without a GPU: what the kernel would read through the step table, multiplied
// by the packed weights, is the convolution.

#include "lamina/cuda/conv2d/first_layer/plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>

#include "lamina/cuda/conv2d/first_layer/pack.h"
#include "support/reference.h"

namespace lamina::test::plan_test {
namespace {

using namespace lamina::cuda;

ConvGeometry geometry(int channels, int filters, int kernel_height, int kernel_width, int stride, int padding,
                      int height = 43, int width = 52) {
  ConvGeometry g;
  g.batch = 2;
  g.in_channels = channels, g.in_height = height, g.in_width = width;
  g.out_channels = filters;
  g.kernel_height = kernel_height, g.kernel_width = kernel_width;
  g.stride_height = g.stride_width = stride;
  g.padding_height = g.padding_width = padding;
  g.out_height = (height + 2 * padding - kernel_height) / stride + 1;
  g.out_width = (width + 2 * padding - kernel_width) / stride + 1;
  return g;
}

constexpr first_layer::Limits limits{
    .multiprocessors = 132, .shared_bytes = 228000, .computing_groups = 2, .raw_slots = 4};

std::optional<first_layer::Plan> plan_of(const ConvGeometry& g, Precision precision,
                                         const first_layer::Limits& device = limits) {
  const View input = {.shape = {g.batch, g.in_channels, g.in_height, g.in_width}};
  const View output = {.shape = {g.batch, g.out_channels, g.out_height, g.out_width}};
  return first_layer::plan(
      {.geometry = g}, {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = {}, .precision = precision}, device);
}

/// Output (oc, oh, ow) of image 0 as the tensor cores compute it: unit by unit of the step table.
double through_steps(const first_layer::Plan& plan, const first_layer::Packed& packed, const float* x, int oc, int oh,
                     int ow) {
  const first_layer::Params& p = plan.params;
  const int columns = plan.filters * (plan.split ? 2 : 1);
  const int split = oc / plan.filters;
  const int column = first_layer::filter_column(oc % plan.filters);
  double sum = 0;
  for (int g = 0; g < p.groups; ++g) {
    for (int s = p.group[g].begin; s < p.group[g].end; ++s) {
      for (int part = 0; part < 2; ++part) {
        const std::uint32_t entry = p.step[s];
        const int unit = static_cast<int>(entry & 0xFFFF) + (part == 0 ? 0 : static_cast<int>(entry >> 16));
        const int plane = unit / p.plane_units, u = unit % p.plane_units;
        const int phase = plane / p.channels, channel = plane % p.channels;
        for (int e = 0; e < 8; ++e) {
          if (p.tap[e].row < 0) continue;  // such a slot holds zero
          const int y = p.stride * (oh + p.group[g].shift) + p.phase_row[phase] - p.padding_height + p.tap[e].row;
          const int column_of_x = p.stride * (ow + u) - p.padding_width + p.tap[e].column;
          if (y < 0 || y >= p.in_height || column_of_x < 0 || column_of_x >= p.in_width) continue;
          const std::int64_t block = (std::int64_t{split} * p.steps + s) * 2 + part;
          const auto at = [&](int c) { return static_cast<std::size_t>((block * columns + c) * 8 + e); };
          double weight = to_float(half{packed.operands[at(column)]});
          if (plan.split) {
            weight += static_cast<double>(to_float(half{packed.operands[at(plan.filters + column)]})) /
                      first_layer::residual_scale;
          }
          sum += weight * x[(channel * p.in_height + y) * p.in_width + column_of_x];
        }
      }
    }
  }
  return sum;
}

TEST(FirstLayerPlan, StepTableAndPackedWeightsAreTheConvolution) {
  std::mt19937 random(1);
  const auto small_integer = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8); };
  for (const ConvGeometry& g :
       {geometry(3, 96, 11, 11, 4, 2), geometry(3, 64, 11, 11, 4, 2), geometry(3, 97, 7, 7, 2, 3),
        geometry(4, 33, 11, 11, 2, 5), geometry(1, 5, 5, 3, 3, 1), geometry(2, 16, 3, 3, 1, 1),
        geometry(3, 20, 1, 1, 4, 0), geometry(4, 8, 6, 9, 4, 1), geometry(3, 24, 11, 11, 4, 2, 30, 1999)}) {
    std::vector<float> x(static_cast<std::size_t>(g.input_size())), w(static_cast<std::size_t>(g.weight_size()));
    for (float& v : x) v = small_integer();
    for (float& v : w) v = small_integer();
    for (const Precision precision : {Precision::fp16, Precision::fp32}) {
      ASSERT_TRUE(first_layer::expressible(g));
      auto plan = plan_of(g, precision);
      ASSERT_TRUE(plan.has_value());
      EXPECT_LE(plan->shared_bytes, limits.shared_bytes);
      EXPECT_LE(plan->params.steps, first_layer::max_steps);
      const first_layer::Packed packed =
          first_layer::pack(*plan, first_layer::order_steps(plan->params), precision, w.data(), nullptr);
      for (int i = 0; i < 200; ++i) {
        const int oc = static_cast<int>(random() % static_cast<unsigned>(g.out_channels));
        const int oh = static_cast<int>(random() % static_cast<unsigned>(g.out_height));
        const int ow = static_cast<int>(random() % static_cast<unsigned>(g.out_width));
        double want = 0, scale = 0;
        reference_conv2d_at(g, x.data(), w.data(), nullptr, 0, oc, oh, ow, want, scale);
        const double unscale =
            precision == Precision::fp32
                ? static_cast<double>(packed.scale[static_cast<std::size_t>(oc)]) * first_layer::input_scale
                : 1.0;
        ASSERT_EQ(through_steps(*plan, packed, x.data(), oc, oh, ow) * unscale, want)
            << g.in_channels << " to " << g.out_channels << ", " << g.kernel_height << "x" << g.kernel_width << "/"
            << g.stride_height << ", output " << oc << ", " << oh << ", " << ow;
      }
    }
  }
}

TEST(FirstLayerPlan, CutsWhatTheDeviceHas) {
  const auto alexnet = [](std::int64_t batch, Precision precision) {
    ConvGeometry g = geometry(3, 96, 11, 11, 4, 2, 224, 224);
    g.batch = batch;
    first_layer::Limits of_team = limits;
    if (precision == Precision::fp32) of_team.raw_slots = 2;
    return plan_of(g, precision, of_team).value();
  };
  EXPECT_EQ(alexnet(256, Precision::fp16).filters, 96);
  EXPECT_EQ(alexnet(256, Precision::fp16).blocks, 132);
  EXPECT_EQ(alexnet(256, Precision::fp16).params.steps, 27);
  EXPECT_EQ(alexnet(256, Precision::fp32).filters, 48);
  EXPECT_EQ(alexnet(256, Precision::fp32).params.splits, 2);
  EXPECT_EQ(alexnet(256, Precision::fp32).params.units, 256 * 49);
}

TEST(FirstLayerPlan, FindsFiltersThatTwoHalvesCannotHold) {
  const ConvGeometry g = geometry(3, 32, 11, 11, 4, 2);
  std::vector<float> w(static_cast<std::size_t>(g.weight_size()), 0.125f);
  const auto reduction = static_cast<std::size_t>(g.reduction());
  w[5 * reduction] = 1e-18f;           // far below its filter's largest
  w[6 * reduction] = 1e30f;            // makes the rest of its filter vanish
  w[7 * reduction + 3] = 1.0f / 3.0f;  // rounded, within bounds
  const auto plan = plan_of(g, Precision::fp32).value();
  first_layer::Params params = plan.params;
  const first_layer::Packed packed =
      first_layer::pack(plan, first_layer::order_steps(params), Precision::fp32, w.data(), nullptr);
  for (std::size_t f = 0; f < 32; ++f) EXPECT_EQ(packed.inexact[f], f == 5 || f == 6 ? 1 : 0) << "filter " << f;
  EXPECT_GT(packed.tolerated, 100);  // the filters that count are flat
}

}  // namespace
}  // namespace lamina::test::plan_test
