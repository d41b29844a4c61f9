// Bins of boxes against plain loops in double precision.

#include "support/problem_data.h"

namespace lamina::test::bins_test {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// What is between four pixels of an image [H, W]; nothing outside.
struct Picture {
  const double* pixels;
  std::int64_t height, width;

  static bool inside(double x, std::int64_t size) { return x >= -1 && x <= static_cast<double>(size); }
  std::vector<double> parts(double y, double x) const {
    y = std::clamp(y, 0.0, static_cast<double>(height - 1)), x = std::clamp(x, 0.0, static_cast<double>(width - 1));
    const auto y0 = static_cast<std::int64_t>(y), x0 = static_cast<std::int64_t>(x);
    const double dy = y - static_cast<double>(y0), dx = x - static_cast<double>(x0);
    const auto pixel = [&](std::int64_t i, std::int64_t j) {
      return pixels[std::min(i, height - 1) * width + std::min(j, width - 1)];
    };
    return {(1 - dy) * (1 - dx) * pixel(y0, x0), (1 - dy) * dx * pixel(y0, x0 + 1), dy * (1 - dx) * pixel(y0 + 1, x0),
            dy * dx * pixel(y0 + 1, x0 + 1)};
  }
};

double sample(const Picture& picture, const double* box, const Bins& how, std::int64_t row, std::int64_t column,
              const Shape& out) {
  const double offset = how.half_pixel ? 0.5 : 0, scale = static_cast<double>(how.spatial_scale);
  const double x0 = box[0] * scale - offset, y0 = box[1] * scale - offset;
  double width = (box[2] - box[0]) * scale, height = (box[3] - box[1]) * scale;
  if (!how.half_pixel) width = std::max(width, 1.0), height = std::max(height, 1.0);
  const double bin_height = height / static_cast<double>(out[2]), bin_width = width / static_cast<double>(out[3]);
  const int down = how.sampling_ratio > 0 ? how.sampling_ratio : static_cast<int>(std::ceil(bin_height)),
            across = how.sampling_ratio > 0 ? how.sampling_ratio : static_cast<int>(std::ceil(bin_width));
  double sum = 0, most = -INFINITY;
  for (int i = 0; i < down; ++i) {
    for (int j = 0; j < across; ++j) {
      const double y = y0 + (static_cast<double>(row) + (i + 0.5) / down) * bin_height,
                   x = x0 + (static_cast<double>(column) + (j + 0.5) / across) * bin_width;
      const bool seen = Picture::inside(y, picture.height) && Picture::inside(x, picture.width);
      for (const double part : seen ? picture.parts(y, x) : std::vector<double>{0})
        sum += part, most = std::max(most, part);
    }
  }
  return how.max ? std::max(most, down * across == 0 ? 0 : most) : sum / std::max(1, down * across);
}

struct Layouts {
  Layout from, to;
};

TEST(Bins, OfEveryKindTypeAndLayout) {
  const Shape in = {2, 37, 9, 12}, out = {5, 37, 3, 7};
  const Tensor boxes = Tensor::from(
      std::vector<float>{1, 2, 7.5F, 8, 0, 0, 3.25F, 2, -4, -4, 20, 3.5F, 5, 5, 17, 16, 4, 4, 9, 9}, {5, 4});
  const Tensor images = Tensor::from(std::vector<std::int64_t>{0, 1, 1, 0, 7}, {5});
  const Tensor count = Tensor::from(std::vector<std::int64_t>{4}, {1});  // so nobody looks at image 7
  for (const Device device : devices_here()) {
    for (const DType dtype : float_types(device)) {
      const Tensor x = draw_floats(in, 1, dtype);
      const std::vector<double> values = doubles(x), corners = doubles(boxes);
      for (const Bins& how : {Bins{}, Bins{.sampling_ratio = 2, .spatial_scale = 0.5F}, Bins{.half_pixel = false},
                              Bins{.max = true, .sampling_ratio = 3}, Bins{.max = true, .spatial_scale = 0.25F}}) {
        std::vector<Truth> truth;
        for (std::int64_t i = 0; i < out.numel(); ++i) {
          const std::int64_t r = i / (37 * 21), c = i / 21 % 37;
          const Picture picture = {values.data() + (images.values<std::int64_t>()[at(r)] % 2 * 37 + c) * 9 * 12, 9, 12};
          const double value = r < 4 ? sample(picture, corners.data() + 4 * r, how, i / 7 % 3, i % 7, out) : 0;
          truth.push_back({value, 1e-5 + 2 * rounding(dtype) * std::abs(value)});
        }
        for (const auto& [from, to] : {Layouts{Layout::nchw, Layout::nchw},
                                       {Layout::nhwc, Layout::nchw},
                                       {Layout::nhwc, Layout::nhwc},
                                       {Layout::nchw, Layout::nhwc}}) {
          if (device.is_cpu() && (from != Layout::nchw || to != Layout::nchw)) continue;
          const std::string what =
              detail::concat(dtype, ' ', name(from), " to ", name(to), " on ", device, how.max ? ", max " : ", ",
                             how.sampling_ratio, how.half_pixel ? "" : ", output_half_pixel");
          const ProblemRun<GridSampleProblem> run({.bins = how}, {x, boxes, images, count}, out, dtype, device,
                                                  {.inputs = {from}, .output = to});
          ASSERT_TRUE(run.taken()) << what;
          expect_near(run.run(), truth, what);
        }
      }
    }
  }
}

TEST(Bins, WhatIsNoNumberStaysOne) {
  Tensor x = Tensor::zeros({1, 1, 4, 4});
  const Tensor boxes = Tensor::from(std::vector<float>{0, 0, 4, 4}, {1, 4}),
               one = Tensor::from(std::vector<std::int64_t>{1}, {1});
  for (const int pixel : {0, 3, 5, 12, 15}) {
    x = Tensor::zeros({1, 1, 4, 4});
    x.values<float>()[at(pixel)] = NAN;
    for (const Device device : devices_here()) {
      for (const bool max : {false, true}) {
        const Tensor y = run_problem(GridSampleProblem{.bins = Bins{.max = max, .sampling_ratio = 4}},
                                     {x, boxes, Tensor::zeros({1}, DType::i64), one}, {1, 1, 1, 1}, DType::f32, device);
        EXPECT_TRUE(std::isnan(y.values<float>()[0])) << pixel << " on " << device << max;
      }
    }
  }
}

TEST(Bins, AreNotTakenForAGrid) {
  const Tensor boxes = Tensor::zeros({2, 4}), whole = Tensor::zeros({2}, DType::i64);
  const ProblemRun<GridSampleProblem> run({.bins = Bins()}, {Tensor::zeros({1, 2, 3, 3}), boxes, whole}, {2, 2, 1, 1},
                                          DType::f32, Device::cpu(), {});
  EXPECT_FALSE(run.taken());
}

}  // namespace
}  // namespace lamina::test::bins_test
