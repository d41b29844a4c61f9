// Which class a pixel has, against plain loops in double precision, and what is drawn of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "pictures/class_map.h"
#include "pictures/segment_picture.h"

namespace lamina::app::segments_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// The score of one class at a pixel of a photograph of which the network has seen all.
double resized(const Tensor& scores, std::int64_t c, int x, int y, int width, int height) {
  const std::int64_t h = scores.shape()[2], w = scores.shape()[3];
  const double at_x = std::clamp((x + 0.5) * static_cast<double>(w) / width - 0.5, 0.0, static_cast<double>(w - 1));
  const double at_y = std::clamp((y + 0.5) * static_cast<double>(h) / height - 0.5, 0.0, static_cast<double>(h - 1));
  const auto left = static_cast<std::int64_t>(at_x), top = static_cast<std::int64_t>(at_y);
  const double dx = at_x - static_cast<double>(left), dy = at_y - static_cast<double>(top);
  const auto value = [&](std::int64_t row, std::int64_t column) -> double {
    return scores
        .values<float>()[static_cast<std::size_t>((c * h + std::min(row, h - 1)) * w + std::min(column, w - 1))];
  };
  return (1 - dy) * ((1 - dx) * value(top, left) + dx * value(top, left + 1)) +
         dy * ((1 - dx) * value(top + 1, left) + dx * value(top + 1, left + 1));
}

ClassMap whole(const Tensor& scores, int width, int height) {
  ThreadPool threads(2);
  return class_map(scores, {0, static_cast<double>(width)}, {0, static_cast<double>(height)}, width, height, threads);
}

TEST(Segments, ClassesAreThoseOfTheResizedScores) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const auto [classes, h, w, height, width] : {std::array{2, 1, 1, 3, 5},
                                                    {21, 13, 7, 40, 31},
                                                    {3, 8, 9, 8, 9},
                                                    {5, 30, 40, 7, 11},
                                                    {150, 4, 6, 1, 37},
                                                    {2, 5, 3, 29, 1}}) {
    Tensor scores({1, classes, h, w});
    for (float& value : scores.values<float>()) value = normal(random);
    const ClassMap map = whole(scores, width, height);
    ASSERT_EQ(map.classes.size(), static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const auto found = map.classes[static_cast<std::size_t>(y * width + x)];
        double best = -1e300;
        for (int c = 0; c < classes; ++c) best = std::max(best, resized(scores, c, x, y, width, height));
        EXPECT_GE(resized(scores, found, x, y, width, height), best - 1e-5) << classes << ' ' << x << ' ' << y;
      }
    }
  }
}

TEST(Segments, EqualScoresAndThoseThatAreNoNumbers) {
  const auto only = [](std::vector<float> scores) {
    const auto classes = static_cast<std::int64_t>(scores.size());
    return whole(Tensor::from(scores, {1, classes, 1, 1}), 1, 1).classes[0];
  };
  EXPECT_EQ(only({1, 2, 2}), 1);
  EXPECT_EQ(only({nan, -3, -4}), 1);
  EXPECT_EQ(only({-3, nan, -2}), 2);
  EXPECT_EQ(only({nan, -INFINITY, nan}), 1);
  EXPECT_EQ(only({0, INFINITY, nan}), 1);
  EXPECT_THROW(only({nan, nan}), Error);
}

TEST(Segments, WhatWasCutOffHasNoClass) {
  // The middle third of 9 x 3 pixels; then a padded input, of which the photograph is the middle.
  const Tensor scores = Tensor::from(std::vector<float>{9, 0, 0, 0, 9, 0, 0, 0, 9}, {1, 3, 1, 3});
  ThreadPool threads(1);
  const ClassMap middle = class_map(scores, {3, 3}, {0, 3}, 9, 3, threads);
  const std::uint16_t no = ClassMap::unseen;
  for (int row = 0; row < 3; ++row) {
    const std::vector<std::uint16_t> found(middle.classes.begin() + row * 9, middle.classes.begin() + row * 9 + 9);
    EXPECT_EQ(found, (std::vector<std::uint16_t>{no, no, no, 0, 1, 2, no, no, no}));
  }
  EXPECT_EQ(middle.counts(3), (std::vector<std::int64_t>{3, 3, 3}));
  EXPECT_EQ(class_map(scores, {-2, 6}, {-1, 3}, 2, 1, threads).classes, (std::vector<std::uint16_t>{1, 1}));
  // Of a very long picture less than a pixel may be seen: one has a class all the same.
  for (const double begin : {0.0, 0.4, 4999.6, 9999.1, 9999.9}) {
    const std::vector<std::int64_t> counts = class_map(scores, {begin, 0.1}, {0, 1}, 10000, 1, threads).counts(3);
    EXPECT_EQ(counts[0] + counts[1] + counts[2], 1) << begin;
  }
}

TEST(Segments, ColorsAreFarApart) {
  for (int a = 0; a < 21; ++a) {
    for (int b = 0; b < a; ++b) {
      int distance = 0;
      for (std::size_t c = 0; c < 3; ++c) distance += std::abs(class_color(a)[c] - class_color(b)[c]);
      EXPECT_GT(distance, 40) << a << ' ' << b;
    }
  }
}

TEST(Segments, PicturesOfAnySize) {
  for (const auto [height, width] : {std::array{1, 1}, {1, 900}, {700, 2}, {40, 30}, {300, 200}}) {
    const auto pixels = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    for (const int names : {0, 1, 3, 200}) {
      SegmentPicture picture{
          "Größe\xFF 写真", {width, height, std::vector<std::uint8_t>(pixels * 3, 90)}, {}, {}, "", true};
      picture.map = {width, height, std::vector<std::uint16_t>(pixels)};
      for (std::size_t i = 0; i < pixels; ++i)
        picture.map.classes[i] = i % 7 == 6 ? 0xFFFF : static_cast<std::uint16_t>(i % 5);
      for (int i = 0; i < names; ++i)
        picture.segments.push_back({i, std::string(static_cast<std::size_t>(i), 'x'), 0.5});
      if (names > 1) picture.footnote = "and 3 of 0.1 % or less";
      const Image drawn = draw(picture);
      EXPECT_GT(drawn.width, width);
      EXPECT_GT(drawn.height, height);
      EXPECT_EQ(drawn.rgb.size(), static_cast<std::size_t>(drawn.width) * static_cast<std::size_t>(drawn.height) * 3);
    }
  }
}

TEST(Segments, BackgroundStaysAsItIs) {
  const int side = 400;  // not enlarged
  const auto pixels = static_cast<std::size_t>(side) * side;
  const auto pixel = [&](bool background, std::uint16_t index) {
    const Image drawn = draw({"t",
                              {side, side, std::vector<std::uint8_t>(pixels * 3, 90)},
                              {side, side, std::vector<std::uint16_t>(pixels, index)},
                              {{index, "a", 1}},
                              "",
                              background});
    const int margin = 24, top = 2 * margin + 18;
    const auto at = (static_cast<std::size_t>(top + 200) * static_cast<std::size_t>(drawn.width) + margin + 200) * 3;
    return Color{drawn.rgb[at], drawn.rgb[at + 1], drawn.rgb[at + 2]};
  };
  const Color photo{90, 90, 90};
  EXPECT_EQ(pixel(true, 0), photo);
  EXPECT_NE(pixel(false, 0), photo);
  EXPECT_NE(pixel(true, 1), photo);
  EXPECT_NE(pixel(true, ClassMap::unseen), photo);
}

TEST(Segments, ThePhotographIsGreyUnderTheColours) {
  const int side = 400, margin = 24, at = 2 * margin + 18 + 200;
  const auto tinted = [&](Color photo) {
    SegmentPicture picture{
        "t", {side, side, {}}, {side, side, std::vector<std::uint16_t>(side * side, 1)}, {{1, "a", 1}}, "", false};
    for (int i = 0; i < side * side; ++i) picture.photo.rgb.insert(picture.photo.rgb.end(), photo.begin(), photo.end());
    return pixel_of(draw(picture), margin + 200, at);
  };
  EXPECT_EQ(tinted({200, 0, 0}), tinted({59, 59, 59}));  // which is as bright
  EXPECT_NE(tinted({200, 0, 0}), tinted({200, 200, 200}));
}

}  // namespace
}  // namespace lamina::app::segments_test
