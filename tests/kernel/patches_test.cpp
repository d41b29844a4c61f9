// A convolution of patches is another one of the same memory.

#include "lamina/kernel/rules/patches.h"

#include "support/problem_data.h"

namespace lamina::test::patches_test {
namespace {

ConvGeometry patches(std::int64_t batch, int channels, int high, int wide, int rows, int columns, int filters) {
  return {.batch = batch,
          .in_channels = channels,
          .in_height = rows * high,
          .in_width = columns * wide,
          .out_channels = filters,
          .out_height = rows,
          .out_width = columns,
          .kernel_height = high,
          .kernel_width = wide,
          .stride_height = high,
          .stride_width = wide};
}

TEST(Patches, AreRowsOfPixelsOfMoreChannels) {
  const Format nhwc = {.layout = Layout::nhwc};
  for (const ConvGeometry& g :
       {patches(2, 3, 4, 2, 3, 5, 6), patches(1, 1, 2, 7, 1, 1, 3), patches(3, 4, 5, 5, 2, 1, 2)}) {
    ASSERT_TRUE(detail::is_patches(g));
    const Tensor x = draw_floats({g.batch, g.in_channels, g.in_height, g.in_width}, 1);
    const Tensor w = draw_floats({g.out_channels, g.in_channels, g.kernel_height, g.kernel_width}, 2);
    const Shape to = {g.batch, g.out_channels, g.out_height, g.out_width};
    const ConvProblem problem = {.geometry = g, .weight = w};
    const Tensor expected = run_problem(problem, {x}, to, DType::f32, Device::cpu());

    const View input = {.shape = x.shape(), .format = nhwc}, output = {.shape = to, .format = nhwc};
    const detail::PatchesAsRows rows(problem, {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = {}});
    ConvProblem same = rows.problem;
    same.weight = rows.weights(w);
    // The images as they lie, seen in the other shape.
    const Tensor memory = reordered(x, true).view(rows.inputs[0].shape);
    const Tensor found = run_problem(same, {reordered(memory, false)}, rows.output.shape, DType::f32, Device::cpu());
    const Tensor back = reordered(reordered(found, true).view(to), false);
    std::vector<Truth> truth;
    for (const double value : doubles(expected)) truth.push_back({value, 1e-4});
    expect_near(back, truth, detail::concat("patches of ", g.kernel_height, " x ", g.kernel_width));
  }
}

TEST(Patches, AreSideBySideAndCoverTheImage) {
  const ConvGeometry g = patches(1, 3, 4, 4, 2, 2, 8);
  const auto still = [&](auto change) {
    ConvGeometry other = g;
    change(other);
    return detail::is_patches(other);
  };
  EXPECT_FALSE(still([](ConvGeometry& o) { o.stride_width = 2; }));
  EXPECT_FALSE(still([](ConvGeometry& o) { o.padding_height = 1; }));
  EXPECT_FALSE(still([](ConvGeometry& o) { o.in_width = 9; }));
  EXPECT_FALSE(still([](ConvGeometry& o) { o.dilation_height = 2; }));
  EXPECT_FALSE(still([](ConvGeometry& o) { o.groups = 3; }));
  EXPECT_FALSE(detail::is_patches(patches(1, 3, 1, 1, 4, 4, 8)));
}

}  // namespace
}  // namespace lamina::test::patches_test
