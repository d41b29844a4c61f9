// Scaled operands: f32 as f16 words that share a power of two with their neighbours.

#include "cuda/conv2d/channels_last/harness.h"
#include "lamina/cuda/conv2d/channels_last/weights.h"
#include "lamina/cuda/tensor_core/scaled_rows.h"

namespace lamina::test::scaled_test {
namespace {

class ChannelsLastScaled : public ChannelsLast {};

/// The tiles of scaled operands, by their place in the list.
std::vector<int> scaled_tiles(Precision precision) {
  std::vector<int> found;
  const auto all = cuda::channels_last::tiles(precision);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (cuda::channels_last::is_scaled(all[i].operand)) found.push_back(static_cast<int>(i));
  }
  return found;
}

bool chosen(const ConvGeometry& g, const KernelOptions& options) {
  const auto found = choice_of(g, options);
  return found && cuda::channels_last::is_scaled(found->tile.operand);
}

// What the words and the scale say of every value, next to the value itself.
TEST_F(ChannelsLastScaled, RowsKeepTheirBits) {
  std::mt19937 random(5);
  for (const bool pairs : {true, false}) {
    constexpr std::int64_t pixels = 37;
    const int channels = 200, terms = pairs ? 32 : 64, slabs = (channels + terms - 1) / terms, blocks = (slabs + 1) / 2;
    std::vector<float> x(static_cast<std::size_t>(pixels * channels));
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Down to 2^-22 of the block's largest: what has all its bits goes on to 2^-28.
      const float magnitude = std::pow(2.0f, std::uniform_real_distribution<float>(-21, 0)(random)) * positive(random);
      const float sign = random() % 2 == 0 ? 1.0f : -1.0f;
      x[i] = i % 7 == 0 ? 0.0f : sign * magnitude * (i / 1000 % 2 == 0 ? 1e-20f : 1e20f);
    }
    const cuda::Buffer input(0, x.data(), x.size() * sizeof(float));
    const GuardedBuffer rows(static_cast<std::size_t>(pixels * slabs) * 128),
        scales(static_cast<std::size_t>(pixels * blocks) * 4);
    cuda::scale_rows({.input = input.as<float>(),
                      .rows = rows.data(),
                      .scales = reinterpret_cast<float*>(scales.data()),
                      .pixels = pixels,
                      .channels = channels,
                      .pairs = pairs,
                      .strict = false},
                     nullptr);
    cuda::synchronize(0, nullptr);
    const auto words = rows.read(), powers = scales.read();
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (int channel = 0; channel < channels; ++channel) {
        const int slab = channel / terms;
        const unsigned char* row = words.data() + (pixel * slabs + slab) * 128;
        half high, low{};
        std::memcpy(&high.bits, row + channel % terms * 2, 2);
        if (pairs) std::memcpy(&low.bits, row + 64 + channel % terms * 2, 2);
        float scale;
        std::memcpy(&scale, powers.data() + (slab / 2 * pixels + pixel) * 4, 4);
        const double seen = (static_cast<double>(to_float(high)) + static_cast<double>(to_float(low)) / 2048) * scale;
        const double value = x[static_cast<std::size_t>(pixel * channels + channel)];
        ASSERT_LE(std::abs(seen - value), std::abs(value) * (pairs ? 0x1p-22 : 0x1p-11)) << pixel << ", " << channel;
      }
    }
  }
}

TEST_F(ChannelsLastScaled, DoubtfulBlocksSaySo) {
  std::vector<float> x(64 * 4, 1.0f);
  x[3] = infinity;
  x[64 + 3] = 1e-20f;  // beside ones
  for (int i = 0; i < 64; ++i) x[static_cast<std::size_t>(128 + i)] = 1e-20f;
  x[192] = 0.0f;
  const cuda::Buffer input(0, x.data(), x.size() * sizeof(float));
  for (const bool strict : {true, false}) {
    const GuardedBuffer rows(4 * 2 * 128), scales(4 * sizeof(float));
    cuda::scale_rows({.input = input.as<float>(),
                      .rows = rows.data(),
                      .scales = reinterpret_cast<float*>(scales.data()),
                      .pixels = 4,
                      .channels = 64,
                      .pairs = true,
                      .strict = strict},
                     nullptr);
    cuda::synchronize(0, nullptr);
    const auto bytes = scales.read();
    float scale[4];
    std::memcpy(scale, bytes.data(), sizeof(scale));
    EXPECT_TRUE(std::isnan(scale[0]));
    EXPECT_EQ(std::isnan(scale[1]), strict);
    EXPECT_FALSE(std::isnan(scale[2]));
    EXPECT_EQ(scale[3], 0x1p-14f);
  }
}

// Weights that f16 cannot hold beside the largest of their filter are left to other operands.
TEST(ScaledWeights, AreExamined) {
  const ConvGeometry g = geometry_of(conv("64x4x4 -> 8"));
  std::vector<float> w(static_cast<std::size_t>(g.weight_size()), 0.5f);
  const auto examined = [&] {
    return cuda::channels_last::examine_scaled(g, cuda::channels_last::Operand::scaled_pairs, w.data());
  };
  EXPECT_TRUE(examined().representable);
  EXPECT_FALSE(examined().strict);
  w[70] = 0.0f;
  EXPECT_TRUE(examined().representable);
  EXPECT_TRUE(examined().strict);
  w[70] = std::ldexp(0.5f, -28);
  EXPECT_TRUE(examined().representable);
  w[70] = std::ldexp(0.5f, -29);
  EXPECT_FALSE(examined().representable);
  w[70] = infinity;
  EXPECT_FALSE(examined().representable);
  std::fill(w.begin(), w.end(), 1e-30f);
  EXPECT_FALSE(examined().representable);
  std::fill(w.begin(), w.end(), 0.0f);
  EXPECT_TRUE(examined().representable);
}

TEST_F(ChannelsLastScaled, HoldsTheContractOnAwkwardValues) {
  const Draw sparse = [](std::mt19937& random) { return random() % 3 == 0 ? normal(random) : 0.0f; };
  const Draw tiny = [](std::mt19937& random) { return random() % 2 == 0 ? normal(random) * 1e-25f : normal(random); };
  const Draw subnormal = [](std::mt19937& random) { return normal(random) * 1e-41f; };
  const Draw huge = [](std::mt19937& random) { return normal(random) * 1e36f; };
  const Draw small = [](std::mt19937& random) { return normal(random) * 1e-12f; };
  const ConvGeometry g = geometry_of(nhwc_cases[5]);
  unsigned seed = 300;
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    for (const int tile : scaled_tiles(precision)) {
      if (reduced() && tile != scaled_tiles(precision).front()) continue;
      for (const int splits : {1, 2}) {
        const KernelOptions options = options_for(precision, false, {.tile = tile, .splits = splits, .multicast = 1});
        if (!chosen(g, options)) continue;
        for (const auto& [x, w] : {std::pair<Draw, Draw>{positive, positive},
                                   {mixed, normal},
                                   {mixed, sparse},
                                   {tiny, sparse},
                                   {sparse, sparse},
                                   {subnormal, normal},
                                   {huge, small}}) {
          expect_contract(g, options, draw(g, x, w, ++seed), false);
          if (reduced()) break;
        }
      }
    }
  }
}

TEST_F(ChannelsLastScaled, NanAndInfReachTheirWindowsAlone) {
  const ConvGeometry g = geometry_of(nhwc_cases[2]);
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    const int tile = scaled_tiles(precision)[3];
    for (const auto& [multicast, splits] : {std::pair{1, 1}, {2, 1}, {1, 3}}) {
      ConvData data = draw(g, normal, positive, 11);
      data.x[0] = infinity, data.x[17] = -infinity, data.x[40] = std::nanf(""), data.x[data.x.size() - 1] = infinity;
      expect_contract(g, options_for(precision, true, {.tile = tile, .splits = splits, .multicast = multicast}), data,
                      true);
    }
  }
}

// A workspace that holds the rows of a few images makes the batch go through in parts, with the same bits.
TEST_F(ChannelsLastScaled, PartsOfABatchGiveTheSameBits) {
  ConvGeometry g = geometry_of(conv("n7 96x13x11 -> 136, k 3, p 1"));
  const ConvData data = draw(g, normal, normal, 21);
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    const int tile = scaled_tiles(precision).front();
    KernelOptions options = options_for(precision, true, {.tile = tile, .splits = 1, .multicast = 1});
    const auto whole = run_bytes(g, options, data, true);
    const auto operand = cuda::channels_last::tiles(precision)[static_cast<std::size_t>(tile)].operand;
    for (const int images : {1, 3}) {
      options.workspace_limit =
          cuda::channels_last::scaled_bytes(g, operand, 1).workspace() * static_cast<std::size_t>(images);
      const auto parts = choice_of(g, options);
      ASSERT_TRUE(parts);
      EXPECT_EQ(parts->images, images);
      EXPECT_EQ(run_bytes(g, options, data, true), whole);
    }
    options.workspace_limit = 100;
    EXPECT_FALSE(choice_of(g, options));
  }
}

}  // namespace
}  // namespace lamina::test::scaled_test
