// The smaller kernels of a CPU on activations stored channels last: against themselves on planes.

#include <gtest/gtest.h>

#include <numeric>

#include "cpu/pool2d/pool_reference.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/fold.h"
#include "lamina/cpu/concat.h"
#include "lamina/cpu/convert.h"
#include "lamina/cpu/images.h"
#include "lamina/cpu/pool2d/channels.h"
#include "support/conv_cases.h"
#include "support/guarded.h"

namespace lamina::cpu::channels_last_test {
namespace {

constexpr Format planes = {}, last = {DType::f32, Layout::nhwc};
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> turned(const Activation& a, Format from, const std::vector<float>& values, ThreadPool& pool) {
  std::vector<float> result(values.size());
  convert(a, from, values.data(), from == planes ? last : planes, result.data(), pool);
  return result;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST(CpuConvert, TurnsImagesOfEverySize) {
  ThreadPool pool(2);
  for (const std::int64_t channels : {1, 3, 31, 32, 33, 70}) {
    for (const std::int64_t pixels : {1, 5, 63, 64, 129}) {
      const Activation a = {2, channels, pixels};
      const std::vector<float> x = test::draw(a.size(), test::Values::mixed, 1);
      const std::vector<float> y = turned(a, planes, x, pool);
      for (std::int64_t i = 0; i < a.size(); ++i) {
        const std::int64_t image = i / (channels * pixels), c = i / pixels % channels, p = i % pixels;
        ASSERT_EQ(x[static_cast<std::size_t>(i)], y[static_cast<std::size_t>((image * pixels + p) * channels + c)]);
      }
      EXPECT_EQ(turned(a, last, y, pool), x);
    }
  }
}

TEST(CpuConvert, RoundsToNearestEven) {
  ThreadPool pool(2);
  const Activation a = {1, 3, 400};
  const std::vector<float> x = test::draw(a.size(), test::Values::mixed, 2);
  std::vector<bfloat16> y(x.size());
  convert(a, planes, x.data(), {DType::bf16, Layout::nhwc}, y.data(), pool);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t p = 0; p < 400; ++p) ASSERT_EQ(y[p * 3 + c].bits, to_bfloat16(x[c * 400 + p]).bits);
  }
}

/// Of a few geometries, with planes, padding and windows that meet no pixel.
std::vector<PoolGeometry> pools(std::int64_t channels) {
  return {{.planes = 2 * channels,
           .in_height = 9,
           .in_width = 7,
           .out_height = 4,
           .out_width = 3,
           .kernel_height = 3,
           .kernel_width = 3,
           .stride_height = 2,
           .stride_width = 2},
          {.planes = 2 * channels,
           .in_height = 9,
           .in_width = 7,
           .out_height = 5,
           .out_width = 4,
           .kernel_height = 3,
           .kernel_width = 3,
           .stride_height = 2,
           .stride_width = 2,
           .padding_height = 1,
           .padding_width = 1},
          {.planes = 2 * channels,
           .in_height = 5,
           .in_width = 6,
           .out_height = 5,
           .out_width = 6,
           .kernel_height = 5,
           .kernel_width = 3,
           .padding_height = 2,
           .padding_width = 1,
           .count_padding = false},
          {.planes = 2 * channels, .in_height = 40, .in_width = 33, .out_height = 1, .out_width = 1},
          {.planes = 2 * channels, .in_height = 7, .in_width = 5, .out_height = 3, .out_width = 2}};
}

TEST(CpuChannelPool, IsThePoolOfPlanes) {
  ThreadPool pool(3);
  for (const ChannelPoolKernel& kernel : channel_pool_kernels()) {
    for (const std::int64_t channels : {1, 5, 16, 67, 300}) {
      const std::vector<PoolGeometry> geometries = pools(channels);
      for (std::size_t which = 0; which < geometries.size(); ++which) {
        const PoolGeometry& g = geometries[which];
        for (const PoolKind kind : {PoolKind::largest, PoolKind::average, PoolKind::adaptive}) {
          if ((which >= 3) != (kind == PoolKind::adaptive)) continue;
          const Activation in = {2, channels, g.in_pixels()}, out = {2, channels, g.out_pixels()};
          std::vector<float> x = test::draw(in.size(), test::Values::mixed, 3);
          if (kind == PoolKind::largest) x[3] = x[40] = nan, x[17] = -std::numeric_limits<float>::infinity();
          std::vector<float> expected;
          for (std::int64_t i = 0; i < out.size(); ++i) {
            const auto pixel = static_cast<int>(i % g.out_pixels());
            expected.push_back(test::pooled(kind, g, x.data() + i / g.out_pixels() * g.in_pixels(), pixel / g.out_width,
                                            pixel % g.out_width));
          }
          Guarded<float> input(turned(in, planes, x, pool)), output(out.size());
          channel_pool2d(kind, kernel, g, {channels, channels, channels}, DType::f32, input.data(), output.data(),
                         pool);
          const std::vector<float> found =
              turned(out, last, std::vector<float>(output.span().begin(), output.span().end()), pool);
          Guarded<float> turned_back(out.size());
          channel_pool2d(kind, kernel, g, {channels, channels, 0}, DType::f32, input.data(), turned_back.data(), pool);
          for (std::size_t i = 0; i < found.size(); ++i) ASSERT_TRUE(same(found[i], turned_back[i])) << channels;
          for (std::size_t i = 0; i < found.size(); ++i) {
            const float tolerance = kind == PoolKind::largest ? 0.0f : 2e-5f;
            ASSERT_TRUE(same(found[i], expected[i]) || std::abs(found[i] - expected[i]) <= tolerance)
                << name(kernel.set) << " pool " << which << ", " << channels << " channels, element " << i << ": "
                << found[i] << ", expected " << expected[i];
          }
        }
      }
    }
  }
}

TEST(CpuChannelPool, OfBf16IsRoundedOnce) {
  ThreadPool pool(1);
  const std::int64_t channels = 37;
  const PooledChannels pixels = {channels, channels, channels};
  const PoolGeometry g = pools(channels)[1];
  const std::vector<float> drawn = test::draw(g.planes * g.in_pixels(), test::Values::mixed, 4);
  std::vector<bfloat16> x(drawn.size()), y(static_cast<std::size_t>(g.planes * g.out_pixels()));
  std::vector<float> exact(drawn.size()), expected(y.size());
  for (std::size_t i = 0; i < x.size(); ++i) exact[i] = to_float(x[i] = to_bfloat16(drawn[i]));
  x[5] = to_bfloat16(exact[5] = nan);
  for (const ChannelPoolKernel& kernel : channel_pool_kernels()) {
    for (const PoolKind kind : {PoolKind::largest, PoolKind::average}) {
      channel_pool2d(kind, kernel, g, pixels, DType::bf16, x.data(), y.data(), pool);
      channel_pool2d(kind, kernel, g, pixels, DType::f32, exact.data(), expected.data(), pool);
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_TRUE(same(to_float(y[i]), to_float(to_bfloat16(expected[i])))) << name(kernel.set) << ' ' << i;
      }
    }
  }
}

void scale_and_shift(const AffineProblem& problem, InstructionSet set, const View& from, const float* input,
                     const View& to, float* output, ThreadPool& pool) {
  DeviceDescription device = lamina::detail::describe_cpu();
  device.instructions = set;
  const auto op = prepare_affine(problem, {.inputs = {&from, 1}, .outputs = {&to, 1}, .device = device});
  const Tensor x = Tensor::borrow(const_cast<float*>(input), from.shape, DType::f32);
  Tensor y = Tensor::borrow(output, to.shape, DType::f32);
  op->run({&x, 1}, {&y, 1}, {.pool = &pool});
}

TEST(CpuAffine, EveryLayoutOnEveryInstructionSet) {
  ThreadPool pool(3);
  for (const FoldKernel& kernel : fold_kernels()) {
    for (const std::int64_t channels : {1, 3, 16, 37}) {
      for (const std::int64_t pixels : {1, 19, 700}) {
        const Activation a = {3, channels, pixels};
        std::vector<float> x = test::draw(a.size(), test::Values::mixed, 5);
        x[1] = nan;
        const std::vector<float> scale = test::draw(channels, test::Values::mixed, 6);
        const std::vector<float> shift = test::draw(channels, test::Values::mixed, 7);
        for (const bool relu : {false, true}) {
          AffineProblem problem = {.scale = Tensor::from(scale, {channels}), .shift = Tensor::from(shift, {channels})};
          if (relu) problem.epilogue.chain = {{Pointwise::relu}};
          const View flat_view = {.shape = {3, channels, pixels, 1}}, last_view = {flat_view.shape, last};
          std::vector<float> flat = x;
          scale_and_shift(problem, kernel.set, flat_view, flat.data(), flat_view, flat.data(), pool);
          for (std::size_t i = 0; i < x.size(); ++i) {
            const auto c = i / static_cast<std::size_t>(pixels) % scale.size();
            const double exact =
                static_cast<double>(x[i]) * static_cast<double>(scale[c]) + static_cast<double>(shift[c]);
            const double expected = relu && exact < 0 ? 0 : exact;
            const double bound =
                1e-6 * (std::abs(static_cast<double>(x[i] * scale[c])) + std::abs(static_cast<double>(shift[c])));
            ASSERT_TRUE((std::isnan(exact) && std::isnan(flat[i])) ||
                        std::abs(static_cast<double>(flat[i]) - expected) <= bound)
                << name(kernel.set) << ' ' << i;
          }
          Guarded<float> rows(turned(a, planes, x, pool));
          scale_and_shift(problem, kernel.set, last_view, rows.data(), last_view, rows.data(), pool);
          const std::vector<float> back =
              turned(a, last, std::vector<float>(rows.span().begin(), rows.span().end()), pool);
          for (std::size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(same(back[i], flat[i])) << name(kernel.set);
        }
      }
    }
  }
}

TEST(CpuConcat, RowsOfAnyLengthSideBySide) {
  ThreadPool pool(3);
  for (const std::int64_t rows : {1, 2, 777}) {
    const std::vector<std::int64_t> widths = {12, 0, 400, 4 * 20011};
    detail::ConcatRows joined{rows, 0, {}};
    std::vector<Tensor> inputs;
    std::int64_t pitch = 0;
    for (const std::int64_t width : widths) {
      inputs.push_back(Tensor::from(test::draw(rows * width / 4, test::Values::mixed, static_cast<unsigned>(width)),
                                    Shape{rows, width / 4}));
      joined.parts.push_back({width, width});
      pitch += width / 4;
    }
    Guarded<float> output(rows * pitch);
    joined.pitch = 4 * pitch;
    concat(inputs, joined, reinterpret_cast<std::byte*>(output.data()), pool);
    std::size_t at = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto length = static_cast<std::size_t>(widths[i] / 4);
        for (std::size_t e = 0; e < length; ++e) {
          ASSERT_EQ(output[at++], inputs[i].values<float>()[static_cast<std::size_t>(row) * length + e]);
        }
      }
    }
  }
}

TEST(CpuSlices, ArePooledScaledAndJoinedAsWholeImagesAre) {
  ThreadPool pool(3);
  const std::int64_t channels = 37, others = 6;
  const PoolGeometry g = pools(channels)[1];
  const Activation in = {2, channels, g.in_pixels()}, out = {2, channels, g.out_pixels()};
  const std::vector<float> x = test::draw(in.size(), test::Values::mixed, 8);
  Slice from(2 * in.pixels, channels, others);
  from.put(x);

  for (const ChannelPoolKernel& kernel : channel_pool_kernels()) {
    std::vector<float> expected(static_cast<std::size_t>(out.size()));
    channel_pool2d(PoolKind::average, kernel, g, {channels, channels, channels}, DType::f32, x.data(), expected.data(),
                   pool);
    Slice to(2 * out.pixels, channels, others + 1);
    channel_pool2d(PoolKind::average, kernel, g, {channels, from.pitch(), to.pitch()}, DType::f32, from.data(),
                   to.data(), pool);
    EXPECT_EQ(to.take(), expected) << name(kernel.set);
    EXPECT_TRUE(to.others_untouched()) << name(kernel.set);
  }

  const AffineProblem affine = {.scale = Tensor::from(test::draw(channels, test::Values::mixed, 9), {channels}),
                                .shift = Tensor::from(test::draw(channels, test::Values::mixed, 10), {channels}),
                                .epilogue = {.chain = {{Pointwise::relu}}}};
  const View whole = {.shape = {2, channels, in.pixels, 1}, .format = last};
  View read = whole, written = whole;
  Slice to(2 * in.pixels, channels, others + 1);
  read.channels = from.pitch(), written.channels = to.pitch();
  std::vector<float> expected(x.size());
  scale_and_shift(affine, InstructionSet::avx512, whole, x.data(), whole, expected.data(), pool);
  scale_and_shift(affine, InstructionSet::avx512, read, from.data(), written, to.data(), pool);
  EXPECT_EQ(to.take(), expected);
  EXPECT_TRUE(to.others_untouched());

  // The slice, and what lies where it belongs already.
  Slice joined(2 * in.pixels, 2 * channels, others);
  std::vector<float> both(2 * x.size(), 7.0f);
  joined.put(both);
  const std::int64_t rows = 2 * in.pixels, width = channels * 4;
  const auto tensor = [](float* values) { return Tensor::borrow(values, {1}, DType::f32); };
  const std::vector<Tensor> inputs = {tensor(from.data()), tensor(joined.data() + channels)};
  const detail::ConcatRows beside{rows, joined.pitch() * 4, {{width, from.pitch() * 4}, {width, joined.pitch() * 4}}};
  concat(inputs, beside, reinterpret_cast<std::byte*>(joined.data()), pool);
  for (std::size_t i = 0; i < both.size(); ++i) {
    const std::size_t row = i / (2 * channels), column = i % (2 * channels);
    both[i] = column < channels ? x[row * channels + column] : 7.0f;
  }
  EXPECT_EQ(joined.take(), both);
  EXPECT_TRUE(joined.others_untouched());
}

}  // namespace
}  // namespace lamina::cpu::channels_last_test
