// The letters of pictures: whatever a file is called, nothing outside the canvas or the font is touched.

#include "pictures/canvas.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "pictures/feature_picture.h"
#include "pictures/maps.h"
#include "pictures/png.h"

// fontconfig keeps what it made of its configuration, which the address sanitizer takes for a leak.
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig"; }

namespace lamina::app::pictures_test {
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
  // What the command's own font has is drawn on every machine.
  const int unknown = drawn("\x01");
  EXPECT_GT(unknown, 10);
  for (const std::string text : {"a", "ö", "ß", "Ł", "ş", "ő", "λ", "Ж", "–", "…", "€", "×"}) {
    EXPECT_GT(drawn(text), 4) << text;
    EXPECT_NE(drawn(text), unknown) << text;
  }
  EXPECT_LT(Canvas::text_width("iiii", 14), Canvas::text_width("WWWW", 14));
}

/// Pixels of a canvas that a line has touched.
int touched(float x0, float y0, float x1, float y1) {
  Canvas canvas(20, 10, black);
  canvas.line(x0, y0, x1, y1, 2, white);
  int count = 0;
  for (std::size_t i = 0; i < canvas.image().rgb.size(); i += 3) count += canvas.image().rgb[i] == 255;
  return count;
}

TEST(Pictures, LinesBeyondEveryPictureAreCutOff) {
  EXPECT_EQ(touched(2, 5, 18, 5), 2 * 16);
  for (const float far : {30.0f, 1e9f, 1e30f, 3e38f}) {
    EXPECT_EQ(touched(-far, 5, far, 5), 2 * 20) << far;
    EXPECT_EQ(touched(5, far, 5, -far), 2 * 10) << far;
    EXPECT_EQ(touched(far, far, far, 2), 0) << far;
    EXPECT_EQ(touched(-far, far, -far, far), 0) << far;
    EXPECT_LE(touched(-far, -far, far, far), 20) << far;
  }
  EXPECT_EQ(touched(NAN, 5, 18, 5) + touched(2, 5, INFINITY, 5) + touched(2, 5, 3, NAN), 0);
  EXPECT_EQ(pixel_at(7.5f), 7);
  EXPECT_GT(pixel_at(1e30f), 100'000);
  EXPECT_LT(pixel_at(NAN), -100'000);
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
    EXPECT_GT(drawn(text), 4);
  }
}

TEST(Pictures, LettersThatNoFontHasAreTheirNumbersAndNotBoxes) {
  EXPECT_EQ(drawn("\U0010FFFE"), drawn("[U+10FFFE]"));
  EXPECT_EQ(Canvas::text_width("a\U0010FFFF", 14), Canvas::text_width("a[U+10FFFF]", 14));
  EXPECT_EQ(drawn("\xFF"), drawn("[U+FFFD]"));
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
  const std::string longest = Canvas::shortened(std::string(100'000, 'i') + "end", 14, 200);
  EXPECT_LE(Canvas::text_width(longest, 14), 200);
  EXPECT_TRUE(longest.starts_with("iii") && longest.ends_with("iend"));
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
      const FeaturePicture described{"Größe\xFF 写真", "sub", input, filters, ChannelOrder::bgr, maps};
      const Image picture = draw(described), card = draw_card(described);
      EXPECT_EQ(card.rgb.size(), static_cast<std::size_t>(card.width) * static_cast<std::size_t>(card.height) * 3);
      EXPECT_EQ(picture.rgb.size(),
                static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height) * 3);
    }
  }
}

/// How far pixels that are not the background reach, across and down.
std::array<int, 2> extent_drawn(const Image& image, Color background) {
  int across = 0, down = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      if (pixel_of(image, x, y) == background) continue;
      across = std::max(across, x + 1), down = std::max(down, y + 1);
    }
  }
  return {across, down};
}

TEST(Pictures, InputsThatAreNotSquareKeepTheirProportions) {
  const Tensor maps = Tensor::zeros({1, 1, 2, 4});
  for (const auto& [width, height] : {std::pair{32, 16}, {16, 32}, {3, 1}, {1000, 1}}) {
    const Image photo{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(3 * width * height), 255)};
    const int longer = std::max(width, height), w = std::max(1, 64 * width / longer),
              h = std::max(1, 64 * height / longer);
    Canvas plain(80, 80, {1, 2, 3}), lit(80, 80, {1, 2, 3});
    draw_photo(plain, 0, 0, 64, photo);
    draw_over_photo(lit, 0, 0, 64, photo, FeatureMap::of(maps, 0), {});
    EXPECT_EQ(extent_drawn(plain.image(), {1, 2, 3}), (std::array{w, h}));
    EXPECT_EQ(extent_drawn(lit.image(), {1, 2, 3}), (std::array{w, h}));
  }
}

TEST(Pictures, TheStrongestAreAmongThoseDrawn) {
  // The last of 300 maps is the only one that answers: it is drawn, and so is its frame.
  Tensor maps = Tensor::zeros({1, 300, 2, 2});
  for (float& value : maps.values<float>().last(4)) value = 1;
  const Image input{4, 4, std::vector<std::uint8_t>(48, 9)};
  const Image image = draw({"t", "s", input, {}, ChannelOrder::rgb, maps});
  const Color one = ColourScale::of(maps).at(1);
  int bright = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 600; x < image.width; ++x) bright += pixel_of(image, x, y) == one ? 1 : 0;  // right of the photograph
  }
  EXPECT_GT(bright, 100);
}

TEST(Pictures, WhiteScreenshotsAreNotBlack) {
  // Nothing answers but a few places at the edge: the overlay is still the photograph, and silent maps are seen.
  const Image screenshot{64, 64, std::vector<std::uint8_t>(64 * 64 * 3, 255)};
  Tensor maps = Tensor::zeros({1, 1, 16, 16});
  maps.values<float>()[3] = 9;
  Canvas canvas(128, 64, black);
  const ColourScale scale = ColourScale::of(maps);
  draw_over_photo(canvas, 0, 0, 64, screenshot, FeatureMap::of(maps, 0), scale);
  draw_map(canvas, 64, 0, 64, 64, FeatureMap::of(maps, 0), scale);
  const std::vector<std::uint8_t>& rgb = canvas.image().rgb;
  for (std::size_t i = 0; i < rgb.size(); i += 3) {
    const int light = rgb[i] + rgb[i + 1] + rgb[i + 2];
    ASSERT_GE(light, i / 3 % 128 < 64 ? 380 : 90) << i;
  }
}

TEST(Maps, TheStrongestHaveTheHighestMeansWhichNoLargestIsBelow) {
  Tensor maps({1, 4, 1, 2});
  const std::array<float, 8> values = {1, 2, -5, -4, NAN, 1, 0, 3};
  std::ranges::copy(values, maps.values<float>().begin());
  const std::vector<Strength> all = strongest(maps, 9);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].map, 0);  // as strong as the last: the first of them
  EXPECT_EQ(all[1].map, 3);
  EXPECT_EQ(all[2].map, 1);
  EXPECT_EQ(all[2].mean, -4.5);
  EXPECT_EQ(all[2].largest, -4);
  EXPECT_EQ(all[3].map, 2);  // NaN
  EXPECT_EQ(strongest(maps, 2).size(), 2u);
  EXPECT_TRUE(strongest(maps, 0).empty());
}

TEST(Maps, ColoursGoFromBlackBothWays) {
  Tensor maps({1, 1, 1, 3});
  const std::array<float, 3> values = {-4, 0, 4};
  std::ranges::copy(values, maps.values<float>().begin());
  const ColourScale scale = ColourScale::of(maps);
  EXPECT_TRUE(scale.negative);
  EXPECT_EQ(scale.largest, 4);
  EXPECT_EQ(scale.place(0), 0);
  EXPECT_EQ(scale.place(1), 0.5f);  // the square root opens up the dark end
  EXPECT_EQ(scale.place(-1), -0.5f);
  EXPECT_EQ(scale.place(100), 1);
  EXPECT_EQ(scale.place(-INFINITY), -1);
  EXPECT_EQ(scale.at(0), inferno(ColourScale::silent));  // dark, but there
  EXPECT_EQ(scale.at(1), inferno(1));
  EXPECT_GT(scale.at(-0.5f)[2], scale.at(-0.5f)[0]);  // cold
  maps.values<float>()[0] = 0;
  EXPECT_FALSE(ColourScale::of(maps).negative);
  for (float& value : maps.values<float>()) value = NAN;
  EXPECT_EQ(ColourScale::of(maps).largest, 1);
}

TEST(Maps, AreAveragedWhereTheyAreLargerThanTheirBox) {
  Tensor maps({1, 1, 2, 4});
  const std::array<float, 8> values = {0, 8, 4, 4, 8, 0, 4, 4};
  std::ranges::copy(values, maps.values<float>().begin());
  const ColourScale scale{.largest = 8, .negative = false};
  Canvas canvas(4, 1, black);
  draw_map(canvas, 1, 0, 2, 1, FeatureMap::of(maps, 0), scale);
  const Color expected = scale.at(scale.place(4));
  for (std::size_t column = 1; column <= 2; ++column) {
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(canvas.image().rgb[3 * column + c], expected[c]);
  }
  EXPECT_EQ(canvas.image().rgb[0] + canvas.image().rgb[9], 0);
}

TEST(Maps, LightThePhotographWhereTheyAreStrong) {
  Image photo{2, 2, std::vector<std::uint8_t>(12, 200)};
  Tensor maps({1, 1, 1, 2});
  maps.values<float>()[0] = 0;
  maps.values<float>()[1] = 1;
  Canvas canvas(8, 8, black);
  draw_over_photo(canvas, 0, 0, 8, photo, FeatureMap::of(maps, 0), {});
  const auto& rgb = canvas.image().rgb;
  EXPECT_NEAR(rgb[0], 100, 2);            // dark and grey where the map is 0
  EXPECT_GT(rgb[3 * 7], 240);             // bright where it is 1
  EXPECT_GT(rgb[3 * 7 + 2], rgb[2] + 9);  // and the photograph is below it
}

TEST(Pictures, PngsHoldEveryPixel) {
  std::mt19937 random(7);
  for (const auto& [width, height] : {std::pair{1, 1}, {5, 1}, {1, 7}, {33, 20}}) {
    Image image{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height) * 3)};
    for (std::uint8_t& level : image.rgb) level = static_cast<std::uint8_t>(random());
    const std::string png = png_of(image);
    EXPECT_EQ(decode_image(std::as_bytes(std::span(png)), "png"), image);
  }
}

TEST(Pictures, SheetsHoldEveryCard) {
  Image input{4, 4, std::vector<std::uint8_t>(48, 9)};
  for (const int count : {1, 2, 9}) {
    Tensor maps({1, count, 3, 2});
    std::ranges::fill(maps.values<float>(), -1.0f);
    const Image card = draw_card({"a card", "", input, {}, ChannelOrder::rgb, maps});
    for (const int cards : {1, 3, 4, 7}) {
      const std::vector<Image> all(static_cast<std::size_t>(cards), card);
      const Image sheet = draw_sheet("a sheet", all);
      const int rows = cards > 3 ? (cards + 1) / 2 : cards;
      EXPECT_GE(sheet.height, rows * card.height);
      EXPECT_GE(sheet.width, (cards > 3 ? 2 : 1) * card.width);
      EXPECT_EQ(sheet.rgb.size(), static_cast<std::size_t>(sheet.width) * static_cast<std::size_t>(sheet.height) * 3);
    }
  }
}

/// What is above the small maps: the share of places that they answer to also where the number has two digits.
TEST(Pictures, CardsSayTheShareOfEveryMap) {
  Tensor maps = Tensor::zeros({1, 50, 4, 4}, DType::f32);
  for (const int map : {41, 42, 43})
    std::ranges::fill(maps.values<float>().subspan(static_cast<std::size_t>(map) * 16, 16), 1.0f);
  const Image card = draw_card({"title", "", {8, 8, std::vector<std::uint8_t>(192)}, {}, ChannelOrder::rgb, maps});
  int written = 0;
  for (int y = 24; y < 42; ++y) {
    for (int x = card.width - 30; x < card.width; ++x) written += pixel_of(card, x, y)[0] > 100 ? 1 : 0;
  }
  EXPECT_GT(written, 20);
}

}  // namespace
}  // namespace lamina::app::pictures_test
