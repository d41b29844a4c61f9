
#include <functional>
#include <numeric>
#include <random>

#include "support/run_problem.h"

namespace lamina::test::move_test {
namespace {

using Axis = MoveProblem::Axis;

/// Every element has a value of its own, as far as the dtype has so many.
Tensor counted(std::int64_t count, DType dtype) {
  Tensor result({count}, dtype);
  const std::size_t size = size_of(dtype);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15u + 1;
    std::memcpy(static_cast<std::byte*>(result.raw()) + static_cast<std::size_t>(i) * size, &bits, size);
  }
  return result;
}

void expect_moved(const std::vector<Axis>& axes, const Tensor& input, double fill, const Tensor& filled, Device device,
                  const std::string& what) {
  std::int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.extent;
  const Tensor got = run_problem(MoveProblem{axes, fill}, {input}, {count}, input.dtype(), device);
  const std::size_t size = size_of(input.dtype());
  const auto* results = static_cast<const std::byte*>(got.raw());
  const auto* from = static_cast<const std::byte*>(input.raw());
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    bool outside = false;
    for (std::size_t d = axes.size(); d-- > 0;) {
      const std::int64_t at = rest % axes[d].extent;
      rest /= axes[d].extent;
      const std::int64_t step =
          axes[d].offsets.empty() ? at * axes[d].stride : axes[d].offsets[static_cast<std::size_t>(at)];
      outside |= !axes[d].offsets.empty() && step == -1;
      offset += step;
    }
    const std::byte* want =
        outside ? static_cast<const std::byte*>(filled.raw()) : from + static_cast<std::size_t>(offset) * size;
    ASSERT_EQ(std::memcmp(results + static_cast<std::size_t>(i) * size, want, size), 0)
        << what << ": element " << i << " of " << count << " of " << input.dtype() << " on " << device;
  }
}

/// A row-major array's axes in another order.
std::vector<Axis> permuted(const std::vector<std::int64_t>& extents, const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t d = extents.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * extents[d + 1];
  std::vector<Axis> axes;
  for (const std::size_t d : order) axes.push_back({.extent = extents[d], .stride = strides[d]});
  return axes;
}

std::int64_t size_from(const std::vector<std::int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

/// An axis of `extent` input elements `stride` apart, `before` and `after` of them outside.
Axis padded(std::int64_t extent, std::int64_t stride, std::int64_t before, std::int64_t after) {
  Axis axis = {.extent = before + extent + after};
  for (std::int64_t i = -before; i < extent + after; ++i)
    axis.offsets.push_back(i < 0 || i >= extent ? -1 : i * stride);
  return axis;
}

template <class F>
Axis table(std::int64_t extent, F f) {
  Axis axis = {.extent = extent};
  for (std::int64_t i = 0; i < extent; ++i) axis.offsets.push_back(f(i));
  return axis;
}

constexpr DType types[] = {DType::boolean, DType::i8,  DType::u16, DType::f16,
                           DType::f32,     DType::i32, DType::i64, DType::f64};

TEST(Move, Permutes) {
  const std::vector<std::vector<std::int64_t>> shapes = {
      {1, 1},    {7, 5},    {33, 65},     {130, 257},     {1000, 3},
      {3, 1000}, {2, 3, 4}, {5, 64, 33},  {2, 31, 17, 9}, {2, 3, 2, 4, 3, 2, 5, 2},
      {1000, 8}, {4, 1025}, {3, 300, 12}, {2, 9, 2000}};
  for (const Device device : devices_here()) {
    for (const auto& extents : shapes) {
      std::vector<std::size_t> order(extents.size());
      std::iota(order.begin(), order.end(), 0);
      std::mt19937 random(7);
      for (int round = 0; round < 8; ++round) {
        if (round == 1) std::reverse(order.begin(), order.end());
        if (round > 1) std::shuffle(order.begin(), order.end(), random);
        const DType dtype = types[static_cast<std::size_t>(round) % std::size(types)];
        expect_moved(permuted(extents, order), counted(size_from(extents), dtype), 0, {}, device, "permuted");
      }
    }
  }
}

TEST(Move, SlicesFlipsExpandsAndTakes) {
  for (const Device device : devices_here()) {
    for (const DType dtype : types) {
      const Tensor input = counted(10 * 40, dtype);
      const auto run = [&](const std::vector<Axis>& axes, const char* what) {
        expect_moved(axes, input, 0, {}, device, what);
      };
      run({{.extent = 10, .stride = 40}, table(20, [](auto i) { return 3 + i; })}, "slice");
      run({table(5, [](auto i) { return 40 * (9 - 2 * i); }), {.extent = 40, .stride = 1}}, "slice backwards");
      run({{.extent = 10, .stride = 40}, table(40, [](auto i) { return 39 - i; })}, "flip");
      run({{.extent = 10, .stride = 40}, table(40, [](auto i) { return (i + 13) % 40; })}, "roll");
      run({{.extent = 3}, {.extent = 400, .stride = 1}}, "expand");
      run({{.extent = 400, .stride = 1}, {.extent = 7}}, "expand inside");
      run({{.extent = 10, .stride = 40}, table(80, [](auto i) { return i / 2; })}, "nearest");
      run({table(25, [](auto i) { return i * 10 / 25 * 40; }), table(99, [](auto i) { return i * 40 / 99; })},
          "nearest");
      run({{.extent = 10, .stride = 40}, {.extent = 13, .stride = 3}}, "strided");
      run({table(1, [](auto) { return 80; }), table(1, [](auto) { return 7; })}, "one element");
      run({{.extent = 0, .stride = 40}, {.extent = 13, .stride = 3}}, "nothing");
      run({}, "a scalar");
      // Depth to space: [2, 2, 5, 4, 5] as [5, 4, ...] in turns.
      run({{.extent = 5, .stride = 20},
           {.extent = 2, .stride = 200},
           {.extent = 20, .stride = 1},
           {.extent = 2, .stride = 100}},
          "depth to space");
    }
  }
}

TEST(Move, Pads) {
  for (const Device device : devices_here()) {
    for (const DType dtype : {DType::boolean, DType::i8, DType::f16, DType::bf16, DType::f32, DType::i64, DType::f64}) {
      const Tensor input = counted(3 * 20 * 50, dtype);
      const double fill = dtype == DType::boolean ? 1 : -2;
      const Tensor filled = Tensor::from(std::vector<double>{fill}, {1}).to(dtype);
      const auto run = [&](const std::vector<Axis>& axes, const char* what) {
        expect_moved(axes, input, fill, filled, device, what);
      };
      run({{.extent = 3, .stride = 1000}, padded(20, 50, 2, 1), padded(50, 1, 3, 5)}, "padded");
      run({padded(3, 1000, 1, 1), {.extent = 20, .stride = 50}, {.extent = 50, .stride = 1}}, "padded outside");
      run({padded(50, 1, 1, 2), padded(20, 50, 1, 3)}, "turned and padded");
      run({padded(50, 1, 2, 0), {.extent = 20, .stride = 50}}, "turned, rows padded");
      run({{.extent = 20, .stride = 50}, padded(3, 1000, 1, 2), {.extent = 50, .stride = 1}}, "turned planes, padded");
      run({padded(20, 50, 2, 2), {.extent = 50, .stride = 1}, {.extent = 3, .stride = 1000}}, "inner axis turned");
      run({{.extent = 60, .stride = 50}, table(60, [](auto i) { return i < 5    ? 5 - i
                                                                       : i < 55 ? i - 5
                                                                                : 103 - i; })},
          "reflected");
      run({{.extent = 60, .stride = 50}, table(60, [](auto i) { return i % 3 == 0 ? -1 : i / 2; })}, "dilated");
      run({table(4, [](auto) { return -1; }), {.extent = 50, .stride = 1}}, "all outside");
      run({table(1, [](auto) { return -1; }), {.extent = 50, .stride = 1}}, "all outside");
    }
  }
}

TEST(Move, CastsTheFill) {
  const Tensor input = counted(4, DType::u8);
  const std::vector<Axis> axes = {table(1, [](auto) { return -1; })};
  for (const Device device : devices_here()) {
    const auto filled = [&](double fill, DType dtype) {
      return doubles(run_problem(MoveProblem{axes, fill}, {counted(4, dtype)}, {1}, dtype, device))[0];
    };
    EXPECT_EQ(filled(-1e9, DType::i8), -128);
    EXPECT_EQ(filled(300.7, DType::u8), 255);
    EXPECT_EQ(filled(1e300, DType::u64), 0x1p64);
    EXPECT_EQ(filled(0.1, DType::f32), static_cast<double>(0.1f));
    EXPECT_EQ(filled(-INFINITY, DType::f16), -INFINITY);
    EXPECT_EQ(filled(0.3, DType::boolean), 1);
    EXPECT_TRUE(std::isnan(filled(NAN, DType::bf16)));
  }
}

}  // namespace
}  // namespace lamina::test::move_test
