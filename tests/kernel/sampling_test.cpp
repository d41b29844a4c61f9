// Resize and grid_sample against plain loops in double precision.

#include "support/problem_data.h"

namespace lamina::test::sampling_test {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

ResampleProblem::Axis draw_axis(int dim, std::int64_t in, std::int64_t out, int taps, unsigned seed) {
  std::mt19937 random(seed);
  ResampleProblem::Axis axis = {.dim = dim, .taps = taps};
  for (std::int64_t i = 0; i < out * taps; ++i) {
    axis.indices.push_back(std::uniform_int_distribution<int>(0, static_cast<int>(in) - 1)(random));
    axis.weights.push_back(std::normal_distribution<float>()(random));
  }
  return axis;
}

struct ResampleCase {
  Shape in, out;
  std::vector<std::pair<int, int>> axes;  // dimension and taps
};

/// Sum over the taps of axis `which` and those behind it.
Truth sum_of(const ResampleProblem& problem, const std::vector<double>& x, const Shape& in,
             const std::vector<std::int64_t>& place, std::vector<std::int64_t> from, std::size_t which) {
  if (which == problem.axes.size()) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < in.rank(); ++d) offset = offset * in[static_cast<int>(d)] + from[d];
    return {x[at(offset)], std::abs(x[at(offset)])};
  }
  const ResampleProblem::Axis& axis = problem.axes[which];
  Truth sum;
  for (int t = 0; t < axis.taps; ++t) {
    const std::size_t i = at(place[at(axis.dim)] * axis.taps + t);
    from[at(axis.dim)] = axis.indices[i];
    const Truth part = sum_of(problem, x, in, place, from, which + 1);
    sum.value += static_cast<double>(axis.weights[i]) * part.value;
    sum.bound += std::abs(static_cast<double>(axis.weights[i])) * part.bound;
  }
  return sum;
}

TEST(Resample, EveryDimension) {
  const std::vector<ResampleCase> cases = {
      {{5}, {9}, {{0, 2}}},
      {{2, 3, 7, 9}, {2, 3, 13, 5}, {{2, 2}, {3, 2}}},
      {{2, 3, 7, 9}, {2, 3, 13, 5}, {{3, 4}, {2, 3}}},
      {{2, 3, 7, 9}, {2, 3, 13, 9}, {{2, 4}}},
      {{2, 3, 7, 9}, {2, 3, 7, 40}, {{3, 1}}},
      {{2, 5, 7, 9}, {2, 2, 6, 9}, {{1, 2}, {2, 3}}},
      {{1, 2, 33, 150}, {1, 2, 70, 300}, {{2, 4}, {3, 4}}},
      {{2, 3, 4, 5, 6}, {2, 3, 6, 3, 8}, {{2, 2}, {3, 2}, {4, 2}}},
      {{3, 4, 5, 6}, {2, 5, 6, 3}, {{0, 2}, {1, 3}, {2, 2}, {3, 2}}},
      {{2, 3, 4, 5}, {2, 3, 4, 5}, {}},
      {{2, 3, 4, 5}, {2, 3, 0, 8}, {{2, 2}, {3, 2}}},
      {{0, 3, 4, 5}, {0, 3, 7, 8}, {{2, 2}, {3, 2}}},
  };
  for (const Device device : devices_here()) {
    for (const DType dtype : float_types(device)) {
      for (const ResampleCase& c : cases) {
        for (const auto& [layout, to] : {std::pair(Layout::nchw, Layout::nchw), std::pair(Layout::nhwc, Layout::nhwc),
                                         std::pair(Layout::nhwc, Layout::nchw)}) {
          if (layout == Layout::nhwc && c.in.rank() != 4) continue;
          const bool rows = std::ranges::any_of(c.axes, [](const auto& axis) { return axis.first == 3; });
          if (layout != to && (device.is_cuda() || !rows)) continue;
          ResampleProblem problem;
          unsigned seed = 5;
          for (const auto& [dim, taps] : c.axes) {
            problem.axes.push_back(draw_axis(dim, std::max<std::int64_t>(1, c.in[dim]), c.out[dim], taps, ++seed));
          }
          const Tensor x = draw_floats(c.in, 1, dtype);
          const std::vector<double> values = doubles(x);
          const std::string what =
              detail::concat(c.in, " to ", c.out, ", ", dtype, " ", name(layout), " to ", name(to), " on ", device);
          const ProblemRun<ResampleProblem> run(problem, {x}, c.out, dtype, device, {.inputs = {layout}, .output = to});
          ASSERT_TRUE(run.taken()) << what;
          std::vector<Truth> truth;
          for (std::int64_t i = 0; i < c.out.numel(); ++i) {
            std::vector<std::int64_t> place(c.out.rank());
            std::int64_t rest = i;
            for (std::size_t d = c.out.rank(); d-- > 0; rest /= c.out[static_cast<int>(d)]) {
              place[d] = rest % c.out[static_cast<int>(d)];
            }
            Truth t = sum_of(problem, values, c.in, place, place, 0);
            t.bound = 3e-6 * t.bound + 2 * rounding(dtype) * std::abs(t.value) + 1e-7;
            truth.push_back(t);
          }
          expect_near(run.run(), truth, what);
        }
      }
    }
  }
}

TEST(Resample, NanAndInfinityReachWhatReadsThem) {
  for (const Device device : devices_here()) {
    const Tensor x = Tensor::from(std::vector<float>{1, NAN, 3, std::numeric_limits<float>::infinity()}, {4});
    const ResampleProblem problem = {{{0, 2, {0, 0, 0, 1, 2, 3, 2, 2}, {0.5f, 0.5f, 1, 0, 0.5f, 0.5f, 1, 1}}}};
    expect_equal(run_problem(problem, {x}, {4}, DType::f32, device), {1, nan_value, inf_value, 6}, "resample");
  }
}

/// As PyTorch's documentation has it, one output at a time; the nearest is found before it is mirrored, as in ONNX.
struct Sampler {
  GridSampleProblem problem;
  Shape in;
  const std::vector<double>& x;

  double position(double g, std::int64_t size) const {
    const auto n = static_cast<double>(size);
    return problem.align_corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  }
  double padded(double p, std::int64_t size) const {
    const auto n = static_cast<double>(size);
    if (problem.padding == GridPadding::zeros) return p;
    if (problem.padding == GridPadding::reflection) {
      const double low = problem.align_corners ? 0 : -0.5, span = problem.align_corners ? n - 1 : n;
      if (span == 0) return 0;
      p = std::abs(p - low);
      const double extra = std::fmod(p, span);
      p = static_cast<std::int64_t>(p / span) % 2 == 0 ? extra + low : span - extra + low;
    }
    return std::min(n - 1, std::max(p, 0.0));
  }
  double pixel(std::int64_t plane, std::vector<std::int64_t> place) const {  // outermost first
    std::int64_t offset = plane;
    for (std::size_t d = 0; d < place.size(); ++d) {
      const std::int64_t size = in[static_cast<int>(d) + 2];
      if (place[d] < 0 || place[d] >= size) return 0;
      offset = offset * size + place[d];
    }
    return x[at(offset)];
  }
  static double cubic(double t) {
    constexpr double a = -0.75;
    t = std::abs(t);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
  }
  /// Over dimension `d` (0: the outermost of the image) and those within.
  double sample(std::int64_t plane, const std::vector<double>& grid, std::vector<std::int64_t> place) const {
    const std::size_t d = place.size();
    if (d == in.rank() - 2) return pixel(plane, place);
    const std::int64_t size = in[static_cast<int>(d) + 2];
    const double raw = position(grid[grid.size() - 1 - d], size);
    place.push_back(0);
    double sum = 0;
    if (problem.mode == GridMode::cubic) {
      for (int i = -1; i <= 2; ++i) {
        place.back() = static_cast<std::int64_t>(padded(std::floor(raw) + i, size));
        sum += cubic(raw - std::floor(raw) - i) * sample(plane, grid, place);
      }
      return sum;
    }
    if (problem.mode == GridMode::nearest) {
      place.back() = static_cast<std::int64_t>(padded(std::nearbyint(raw), size));
      return sample(plane, grid, place);
    }
    const double p = padded(raw, size);
    for (int i = 0; i <= 1; ++i) {
      place.back() = static_cast<std::int64_t>(std::floor(p)) + i;
      sum += (i == 0 ? std::floor(p) + 1 - p : p - std::floor(p)) * sample(plane, grid, place);
    }
    return sum;
  }
};

void check_grid(const GridSampleProblem& problem, const Shape& in, const Shape& out, DType dtype, Device device) {
  const int dims = static_cast<int>(in.rank()) - 2;
  Shape grid_shape = out;
  for (int d = 1; d <= dims; ++d) grid_shape.set(d, out[d + 1]);
  grid_shape.set(dims + 1, dims);
  Tensor grid = draw_floats(grid_shape, 2);
  // Multiples of 1/64, so that 16 bits hold them and a position half way between pixels is so in all arithmetics.
  for (float& g : grid.values<float>()) g = std::round(g * 64) / 64;
  const Tensor x = draw_floats(in, 1, dtype);
  grid = grid.to(dtype);
  const std::vector<double> values = doubles(x), places = doubles(grid);
  const std::string what = detail::concat(in, " to ", out, ", mode ", static_cast<int>(problem.mode), ", padding ",
                                          static_cast<int>(problem.padding),
                                          problem.align_corners ? ", aligned, " : ", ", dtype, " on ", device);
  const ProblemRun<GridSampleProblem> run(problem, {x, grid}, out, dtype, device);
  ASSERT_TRUE(run.taken()) << what;
  const Sampler sampler{problem, in, values};
  std::int64_t pixels = 1;
  for (int d = 0; d < dims; ++d) pixels *= out[d + 2];
  std::vector<Truth> truth;
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const std::int64_t plane = i / pixels, pixel = plane / in[1] * pixels + i % pixels;
    const std::vector<double> g(places.begin() + pixel * dims, places.begin() + (pixel + 1) * dims);
    const double value = sampler.sample(plane, g, {});
    truth.push_back({value, 1e-4 + 2 * rounding(dtype) * std::abs(value)});
  }
  expect_near(run.run(), truth, what);
}

TEST(GridSample, AsPyTorchDoes) {
  for (const Device device : devices_here()) {
    for (const DType dtype : float_types(device)) {
      for (const GridMode mode : {GridMode::linear, GridMode::nearest, GridMode::cubic}) {
        for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
          for (const bool aligned : {false, true}) {
            const GridSampleProblem problem = {mode, padding, aligned};
            check_grid(problem, {2, 3, 8, 16}, {2, 3, 9, 11}, dtype, device);
            check_grid(problem, {1, 2, 4, 1}, {1, 2, 20, 7}, dtype, device);
            check_grid(problem, {2, 6, 5, 3}, {2, 6, 20, 27}, dtype, device);
            check_grid(problem, {1, 2, 4, 5}, {1, 2, 0, 7}, dtype, device);
            if (mode != GridMode::cubic) check_grid(problem, {2, 2, 4, 8, 2}, {2, 2, 3, 5, 4}, dtype, device);
          }
        }
      }
    }
  }
}

/// Between pixels 0 and 1 of two, mirrored once: -2.5 goes to -2 and that to 1, but 1.5 would go to 2 and that to 1
/// too, so that only -1.5 (-2, then 1; else 0.5, then 0) and 2.5 (2, then 1; else 0.5, then 0) tell the two apart.
TEST(GridSample, TiesAreRoundedBeforeTheyAreMirrored) {
  const Tensor x = Tensor::from(std::vector<float>{10, 20}, {1, 1, 1, 2});
  const Tensor grid = Tensor::from(std::vector<float>{-2, 0, 2, 0}, {1, 1, 2, 2});  // pixels -1.5 and 2.5
  for (const Device device : devices_here()) {
    const GridSampleProblem problem = {GridMode::nearest, GridPadding::reflection};
    expect_equal(run_problem(problem, {x, grid}, {1, 1, 1, 2}, DType::f32, device), {20, 20}, "ties");
  }
}

TEST(GridSample, WhatIsNotFiniteIsOutside) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor grid =
      Tensor::from(std::vector<float>{NAN, 0, 0, inf, -inf, NAN, 1e30f, 0, -1e38f, -3e38f}, {1, 1, 5, 2});
  const Tensor x = Tensor::from(std::vector<float>(12, 1.0f), {1, 1, 3, 4});
  for (const Device device : devices_here()) {
    for (const GridMode mode : {GridMode::linear, GridMode::nearest, GridMode::cubic}) {
      for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
        const Tensor y = run_problem(GridSampleProblem{mode, padding}, {x, grid}, {1, 1, 1, 5}, DType::f32, device);
        const double value = padding == GridPadding::zeros ? 0 : 1;
        expect_equal(y, std::vector<double>(5, value), detail::concat(static_cast<int>(mode), " on ", device));
      }
    }
  }
}

/// Of five channels, so that some are computed together; each has one pixel that is no number.
TEST(GridSample, APixelReachesOnlyWhatReadsIt) {
  for (int pixel = 0; pixel < 4; ++pixel) {
    Tensor x = Tensor::zeros({1, 5, 2, 2});
    for (int c = 0; c < 5; ++c) x.values<float>()[at(c * 4 + pixel)] = c % 2 == 0 ? NAN : inf_value;
    // The corners alone, aligned, and a place that is nowhere.
    const Tensor grid = Tensor::from(std::vector<float>{-1, -1, 1, -1, -1, 1, 1, 1, -9, 9}, {1, 1, 5, 2});
    std::vector<double> expected(25, 0);
    for (std::size_t c = 0; c < 5; ++c) expected[c * 5 + at(pixel)] = c % 2 == 0 ? nan_value : inf_value;
    for (const Device device : devices_here()) {
      const GridSampleProblem problem = {.mode = GridMode::nearest, .align_corners = true};
      expect_equal(run_problem(problem, {x, grid}, {1, 5, 1, 5}, DType::f32, device), expected, "a pixel");
    }
  }
}

TEST(GridSample, AnEmptyImageIsZero) {
  for (const Device device : devices_here()) {
    for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
      const Tensor y =
          run_problem(GridSampleProblem{GridMode::linear, padding}, {Tensor({1, 2, 0, 4}), Tensor::zeros({1, 2, 2, 2})},
                      {1, 2, 2, 2}, DType::f32, device);
      expect_equal(y, std::vector<double>(8, 0), "empty");
    }
  }
}

}  // namespace
}  // namespace lamina::test::sampling_test
