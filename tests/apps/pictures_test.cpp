// The letters of pictures: whatever a file is called, nothing outside the canvas or the font is touched.

#include "pictures/canvas.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "pictures/feature_picture.h"

namespace lamina::app {
namespace {

constexpr Color black{0, 0, 0}, white{255, 255, 255};

/// Pixels that the text has touched.
int drawn(const std::string& text, int x = 4, int y = 4) {
  Canvas canvas(300, 40, black);
  canvas.text(x, y, text, 14, white);
  int count = 0;
  for (std::size_t i = 0; i < canvas.image().rgb.size(); i += 3) count += canvas.image().rgb[i] != 0;
  return count;
}

TEST(Pictures, LettersOfEveryScript) {
  for (const std::string text :
       {"Größe – 写真.jpg", "Ελληνικά", "Кириллица", "ﷺ مرحبا", "हिन्दी", "😀", "Z̷̢a", "\u202Eevil"}) {
    EXPECT_GT(drawn(text), 20) << text;
    EXPECT_GT(Canvas::text_width(text, 14), 10) << text;
  }
  EXPECT_EQ(drawn(""), 0);
  EXPECT_EQ(drawn(" "), 0);
}

TEST(Pictures, LettersDiffer) {
  // Not one box for all: what the command's own font has is drawn on every machine.
  const int box = drawn("\x01");
  EXPECT_GT(box, 10);
  for (const std::string text : {"a", "ö", "ß", "Ł", "ş", "ő", "λ", "Ж", "–", "…", "€", "×"}) {
    EXPECT_GT(drawn(text), 4) << text;
    EXPECT_NE(drawn(text), box) << text;
  }
  EXPECT_LT(Canvas::text_width("iiii", 14), Canvas::text_width("WWWW", 14));
}

TEST(Pictures, AnyBytesAreDrawn) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const int x = static_cast<int>(random() % 700) - 350, y = static_cast<int>(random() % 120) - 60;
    Canvas canvas(300, 40, black);
    canvas.text(x, y, text, 1 + static_cast<int>(random() % 30), white);
    EXPECT_GE(Canvas::text_width(text, 14), 0);
  }
  for (const std::string text : {"\xC3", "\xF4\x90\x80\x80", "\xED\xA0\x80", "\xC0\x80", "\xFF\xFE", "a\x80"}) {
    EXPECT_GT(drawn(text), 4);  // boxes
  }
}

TEST(Pictures, LongTitlesLoseTheirMiddle) {
  std::string name;
  for (int i = 0; i < 1000; ++i) name += "ä写";
  const std::string shown = Canvas::shortened(name, 14, 200);
  EXPECT_LE(Canvas::text_width(shown, 14), 200);
  EXPECT_GT(Canvas::text_width(shown, 14), 120);
  EXPECT_TRUE(shown.starts_with("ä") && shown.ends_with("写")) << shown;
  EXPECT_NE(shown.find("…"), std::string::npos) << shown;
  EXPECT_EQ(Canvas::shortened("short.jpg", 14, 200), "short.jpg");
}

TEST(Pictures, FeaturesOfOddShapesAndValues) {
  Image input;
  input.width = 3;
  input.height = 3;
  input.rgb.assign(27, 9);
  for (const int channels : {1, 2, 3}) {
    for (const auto [count, height, width] : {std::array{1, 1, 1}, {5, 1, 300}, {300, 2, 3}}) {
      Tensor filters({count, channels, 2, 3}), maps({1, count, height, width});
      for (float& w : filters.values<float>()) w = 0;
      float value = -3;
      for (float& m : maps.values<float>()) m = value += 0.5f;
      maps.values<float>()[0] = NAN;
      if (maps.numel() > 1) maps.values<float>()[1] = INFINITY;
      const Image picture = draw({"Größe\xFF 写真", "sub", input, filters, ChannelOrder::bgr, maps});
      EXPECT_EQ(picture.rgb.size(),
                static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height) * 3);
    }
  }
}

}  // namespace
}  // namespace lamina::app
