#include "lamina/images/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace lamina::test::resize_test {
namespace {

Image black_image(int width, int height) {
  return {width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(std::int64_t{3} * width * height))};
}

Image random_image(int width, int height, std::mt19937& random) {
  Image image = black_image(width, height);
  std::uniform_int_distribution<int> level(0, 255);
  for (auto& value : image.rgb) value = static_cast<std::uint8_t>(level(random));
  return image;
}

std::uint8_t& at(Image& image, int x, int y, int c) {
  return image.rgb[static_cast<std::size_t>((std::int64_t{y} * image.width + x) * 3 + c)];
}

/// Stores through volatile, so that no product is fused with the next addition: see `rounded` in resize.cpp.
double exactly(double value) {
  volatile double stored = value;
  return stored;
}

/// One pixel of one pass, straight from the formula in Pillow's Resample.c; `sample(i)` is input pixel i of `in`.
template <class Sample>
std::uint8_t resampled(int in, int out, int index, const Sample& sample) {
  const double scale = static_cast<double>(in) / out;
  const double filter_scale = std::max(scale, 1.0);
  const double center = exactly((index + 0.5) * scale);
  const int begin = std::max(0, static_cast<int>(center - filter_scale + 0.5));
  const int end = std::min(in, static_cast<int>(center + filter_scale + 0.5));
  std::vector<double> weights;
  double sum = 0;
  for (int i = begin; i < end; ++i) {
    weights.push_back(std::max(0.0, 1.0 - std::abs(exactly((i - center + 0.5) * (1.0 / filter_scale)))));
    sum += weights.back();
  }
  int total = 1 << 21;
  for (int i = begin; i < end; ++i) {
    const double weight = weights[static_cast<std::size_t>(i - begin)] / sum;
    total += sample(i) * static_cast<int>(0.5 + weight * (1 << 22));
  }
  return static_cast<std::uint8_t>(std::clamp(total >> 22, 0, 255));
}

Image resize_width(Image image, int width) {
  Image out = black_image(width, image.height);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        at(out, x, y, c) = resampled(image.width, width, x, [&](int i) { return at(image, i, y, c); });
      }
    }
  }
  return out;
}

Image transposed(Image image) {
  Image out{image.height, image.width, std::vector<std::uint8_t>(image.rgb.size())};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < 3; ++c) at(out, y, x, c) = at(image, x, y, c);
    }
  }
  return out;
}

Image resize_height(const Image& image, int height) { return transposed(resize_width(transposed(image), height)); }

Image reference_resize(const Image& image, int width, int height) {
  const int shrinks_x = image.width - width, shrinks_y = image.height - height;
  if (shrinks_y > 0 && shrinks_y > 2 * shrinks_x) return resize_width(resize_height(image, height), width);
  return resize_height(resize_width(image, width), height);
}

Image cut(Image image, int left, int top, int width, int height) {
  Image out = black_image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) at(out, x, y, c) = at(image, left + x, top + y, c);
    }
  }
  return out;
}

TEST(Resize, EqualsTheFormulaOnRandomSizes) {
  std::mt19937 random(20);
  std::uniform_int_distribution<int> side(1, 70);
  int vertical_first = 0;
  for (int round = 0; round < 400; ++round) {
    const Image image = random_image(side(random), side(random), random);
    const int width = side(random), height = side(random);
    vertical_first += detail::resizes_vertically_first(image, width, height);
    ASSERT_EQ(detail::resize_bilinear(image, width, height, {0, 0, width, height}),
              reference_resize(image, width, height))
        << image.width << " x " << image.height << " to " << width << " x " << height;
  }
  EXPECT_GT(vertical_first, 50);
  EXPECT_LT(vertical_first, 350);
}

TEST(Resize, ARegionHasTheBitsOfTheWhole) {
  std::mt19937 random(21);
  std::uniform_int_distribution<int> side(1, 60);
  for (int round = 0; round < 300; ++round) {
    const Image image = random_image(side(random), side(random), random);
    const int width = side(random), height = side(random);
    const int left = std::uniform_int_distribution<int>(0, width - 1)(random);
    const int top = std::uniform_int_distribution<int>(0, height - 1)(random);
    const int part_width = std::uniform_int_distribution<int>(1, width - left)(random);
    const int part_height = std::uniform_int_distribution<int>(1, height - top)(random);
    const Image whole = detail::resize_bilinear(image, width, height, {0, 0, width, height});
    ASSERT_EQ(detail::resize_bilinear(image, width, height, {left, top, part_width, part_height}),
              cut(whole, left, top, part_width, part_height))
        << image.width << " x " << image.height << " to " << width << " x " << height << ", " << part_width << " x "
        << part_height << " at " << left << ", " << top;
  }
}

TEST(Resize, ToTheSameSizeIsACopy) {
  std::mt19937 random(22);
  const Image image = random_image(37, 23, random);
  EXPECT_EQ(detail::resize_bilinear(image, 37, 23, {0, 0, 37, 23}), image);
}

TEST(Resize, KeepsWhiteWhiteAndBlackBlack) {
  for (const int level : {0, 255}) {
    const Image image{61, 47, std::vector<std::uint8_t>(61 * 47 * 3, static_cast<std::uint8_t>(level))};
    const Image result = detail::resize_bilinear(image, 19, 90, {0, 0, 19, 90});
    EXPECT_TRUE(std::all_of(result.rgb.begin(), result.rgb.end(), [&](int value) { return value == level; }));
  }
}

TEST(Resize, AHugeResultCostsNoMoreThanItsRegion) {
  std::mt19937 random(23);
  const Image image = random_image(1, 10000, random);
  const std::int64_t height = 2'560'000;
  const Image part = detail::resize_bilinear(image, 256, height, {16, height / 2 - 112, 224, 224});
  ASSERT_EQ(part.rgb.size(), 224u * 224 * 3);
  for (int y = 0; y < 224; ++y) {
    for (int c = 0; c < 3; ++c) {
      Image column = image;
      const auto row = static_cast<int>(height / 2 - 112 + y);
      ASSERT_EQ(part.rgb[static_cast<std::size_t>(y * 224 * 3 + c)],
                resampled(10000, static_cast<int>(height), row, [&](int i) { return at(column, 0, i, c); }));
    }
  }
}

}  // namespace
}  // namespace lamina::test::resize_test
