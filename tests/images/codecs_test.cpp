// GIF, and WebP, TIFF and HEIC where this build reads them, and what becomes of transparent pixels.

#include <cstdlib>
#include <sstream>

#include "lamina/images/codecs/codec.h"
#include "lamina/images/exif.h"
#include "lamina/images/preprocess.h"
#include "support/file_test.h"

namespace lamina::test::codecs_test {
namespace {

const std::filesystem::path golden = LAMINA_TEST_DATA "/golden";

bool reads(std::string_view format) { return image_formats().find(format) != std::string::npos; }

constexpr ImageOptions on_white = {.transparency = Transparency::on_white};

/// The least opaque a picture's pixels can be laid on white is as Pillow rounds it; opaque ones stay as they are.
TEST(Transparency, OnWhiteIsWhatPillowPastes) {
  std::istringstream lines(read_file(golden / "on_white.txt"));
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    std::string path;
    std::uint64_t expected = 0;
    fields >> path >> std::hex >> expected;
    if (path.ends_with(".webp") && !reads("WebP")) continue;
    const Image image = read_image(std::filesystem::path(LAMINA_SOURCE_DIR) / path, on_white);
    EXPECT_EQ(fnv1a(image.rgb.data(), image.rgb.size()), expected) << path;
    ++count;
  }
  EXPECT_GE(count, 9);
}

TEST(Transparency, HiddenColoursShowUnlessWhiteIsAskedFor) {
  const Image hidden = read_image(golden / "images/rgba.png");
  EXPECT_NE(read_image(golden / "images/rgba.png", on_white), hidden);
  const Tensor usual = load_image(golden / "images/rgba.png", torchvision_imagenet());  // as people see it
  const Tensor seen = preprocess(read_image(golden / "images/rgba.png", on_white), torchvision_imagenet());
  EXPECT_TRUE(std::ranges::equal(usual.values<float>(), seen.values<float>()));
  const Tensor stored = load_image(golden / "images/rgba.png", torchvision_imagenet(), {});
  const Tensor expected = preprocess(hidden, torchvision_imagenet());
  EXPECT_TRUE(std::ranges::equal(stored.values<float>(), expected.values<float>()));
}

TEST(Transparency, EveryOpacityIsRoundedToTheNearest) {
  for (int opacity = 0; opacity < 256; ++opacity) {
    for (int level = 0; level < 256; ++level) {
      const auto l = static_cast<std::uint8_t>(level);
      const std::uint8_t rgba[] = {l, 0, 255, static_cast<std::uint8_t>(opacity)};
      std::uint8_t rgb[3] = {};
      detail::lay_on_white(rgba, 1, rgb);
      ASSERT_EQ(rgb[0], (level * opacity + 255 * (255 - opacity) + 127) / 255) << level << " of opacity " << opacity;
      ASSERT_EQ(rgb[1], 255 - opacity);
      ASSERT_EQ(rgb[2], 255);
    }
  }
}

TEST(Transparency, ItsMemoryIsInTheEstimate) {
  const std::string text = read_file(golden / "images/palette_alpha.png");
  const std::uint64_t memory = decoding_memory(as_bytes(text), "palette", on_white);
  EXPECT_GE(memory, 7u * 40 * 30);  // RGBA and RGB
}

TEST(Formats, AreNamedAndTheirFilesKnownByName) {
  EXPECT_TRUE(image_formats().starts_with(reads("JPEG") ? "PNG, JPEG, GIF, BMP" : "PNG, GIF, BMP"));
  for (const char* name : {"a.png", "b.GIF", "d.tga", "dir.x/e.Ppm"}) {
    EXPECT_TRUE(detail::is_named_like_image(name)) << name;
  }
  for (const char* name : {"png", "a.", "a.pn", "a.png.txt", "a.g", ".png", "a.jp", "a.g.", "a.txt"}) {
    EXPECT_FALSE(detail::is_named_like_image(name)) << name;
  }
  EXPECT_EQ(detail::is_named_like_image("b.JPG") && detail::is_named_like_image("c.jpeg"), reads("JPEG"));
  EXPECT_EQ(detail::is_named_like_image("a.webp"), reads("WebP"));
  EXPECT_EQ(detail::is_named_like_image("IMG_1.HEIC"), reads("HEIC"));
}

TEST(Formats, PhonesOfTwoHundredMegapixelsAreWithinTheLimit) {
  EXPECT_EQ(decoding_memory(as_bytes("P6 12000 9000 255\n"), "108"), 324'000'000u);
  EXPECT_EQ(decoding_memory(as_bytes("P6 16320 12240 255\n"), "200"), 599'270'400u);
  expect_error([] { decoding_memory(as_bytes("P6 20000 20000 255\n"), "400"); },
               {"400", "too large", "250 megapixels"});
  expect_error([] { decode_image(as_bytes("P6 16320 12240 255\n"), "200", {.memory = 500'000'000}); },
               {"200", "599 MB", "500 MB"});
}

std::string little(std::size_t value, int bytes) {
  std::string text;
  for (; bytes > 0; --bytes, value >>= 8) text += static_cast<char>(value & 255);
  return text;
}

/// `webp` in the extended form, with EXIF data behind its pixels.
std::string with_exif(const std::string& webp, const Image& image, const std::string& data) {
  const auto width = static_cast<std::size_t>(image.width), height = static_cast<std::size_t>(image.height);
  std::string body = "WEBPVP8X" + little(10, 4) + little(8, 4) + little(width - 1, 3) + little(height - 1, 3) +
                     webp.substr(12) + "EXIF" + little(data.size(), 4) + data;
  if (data.size() % 2 == 1) body += '\0';
  return "RIFF" + little(body.size(), 4) + body;
}

TEST(Webp, IsTurnedAsItsExifSays) {
  if (!reads("WebP")) GTEST_SKIP() << "built without libwebp";
  const std::string webp = read_file(golden / "images/lossy.webp");
  const Image stored = decode_image(as_bytes(webp), "photo");
  using namespace std::string_literals;
  const std::string tiff = "MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"s;
  for (const std::string& data : {tiff, "Exif\0\0"s + tiff}) {
    const std::string turned = with_exif(webp, stored, data);
    EXPECT_EQ(detail::exif_orientation(as_bytes(turned)), 6);
    EXPECT_EQ(decode_image(as_bytes(turned), "photo"), stored);
    EXPECT_EQ(decode_image(as_bytes(turned), "photo", {.orientation = Orientation::upright}),
              detail::oriented(stored, 6));
  }
}

TEST(Webp, DamageIsAnError) {
  if (!reads("WebP")) GTEST_SKIP() << "built without libwebp";
  for (const char* name : {"lossy.webp", "lossless.webp", "alpha.webp"}) {
    const std::string text = read_file(golden / "images" / name);
    for (std::size_t at = 12; at < text.size(); at += 7) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      try {
        const Image image = decode_image(as_bytes(damaged), "photo", on_white);  // lossy data may still mean something
        EXPECT_EQ(image.rgb.size(), 3 * static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height));
      } catch (const Error& error) {
        EXPECT_TRUE(std::string_view(error.what()).starts_with("photo: ")) << error.what();
      }
    }
  }
}

/// As Pillow shows it: what the frame leaves out is transparent black.
TEST(Webp, OfAnAnimationTheFirstFrameIsRead) {
  if (!reads("WebP")) GTEST_SKIP() << "built without libwebp";
  for (const char* name : {"lossy.webp", "lossless.webp", "alpha_lossless.webp"}) {
    const std::string webp = read_file(golden / "images" / name), still = webp.substr(12);
    for (const ImageOptions& options : {ImageOptions{}, on_white}) {
      const Image frame = decode_image(as_bytes(webp), "frame", options);
      const auto width = static_cast<std::size_t>(frame.width), height = static_cast<std::size_t>(frame.height);
      const auto animation = [&](std::size_t left, std::size_t top, std::size_t right, std::size_t size) {
        const std::string body = "WEBPVP8X" + little(10, 4) + little(2, 4) + little(left + width + right - 1, 3) +
                                 little(top + height - 1, 3) + "ANIM" + little(6, 4) + little(0, 6) + "ANMF" +
                                 little(size, 4) + little(left / 2, 3) + little(top / 2, 3) + little(width - 1, 3) +
                                 little(height - 1, 3) + little(100, 4) + still;
        return "RIFF" + little(body.size(), 4) + body;
      };
      const std::size_t size = 16 + still.size();
      EXPECT_EQ(decode_image(as_bytes(animation(0, 0, 0, size)), "photo", options), frame) << name;
      const Image placed = decode_image(as_bytes(animation(6, 4, 3, size)), "photo", options);
      ASSERT_EQ(placed.width, frame.width + 9);
      ASSERT_EQ(placed.height, frame.height + 4);
      const std::uint8_t beyond = options.transparency == Transparency::on_white ? 255 : 0;
      for (std::size_t i = 0; i < placed.rgb.size(); ++i) {
        const std::size_t x = i / 3 % (width + 9), y = i / 3 / (width + 9);
        const bool inside = x >= 6 && x < 6 + width && y >= 4;
        ASSERT_EQ(placed.rgb[i], inside ? frame.rgb[((y - 4) * width + x - 6) * 3 + i % 3] : beyond) << name << i;
      }
      const std::string beside = animation(6, 4, static_cast<std::size_t>(-4), size);
      expect_error([&] { decode_image(as_bytes(beside), "photo"); }, {"photo: damaged WebP: a frame beyond"});
      expect_error([&] { decode_image(as_bytes(animation(0, 0, 0, 9)), "photo"); },
                   {"photo: damaged WebP: a frame of 9"});
      expect_error([&] { decode_image(as_bytes(animation(0, 0, 0, 99999)), "photo"); }, {"photo: truncated"});
    }
  }
}

TEST(Formats, JpegIsRefusedWithoutLibjpegTurbo) {
  const std::string text = read_file(golden / "images/colour.jpg");
  if (reads("JPEG")) {
    EXPECT_TRUE(jpeg_decoder().starts_with("libjpeg-turbo"));
    return;
  }
  EXPECT_EQ(jpeg_decoder(), "none");
  expect_error([&] { decode_image(as_bytes(text), "photo"); }, {"this is a JPEG image", "djpeg"});
}

TEST(Gif, DamageIsAnError) {
  const std::string text = read_file(golden / "images/palette.gif");
  for (std::size_t size = 6; size < text.size() - 1; size += 5) {
    expect_error([&] { decode_image(as_bytes(text).first(size), "photo"); }, {"photo: "});
  }
  for (std::size_t at = 6; at < text.size(); at += 3) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    try {
      const Image image = decode_image(as_bytes(damaged), "photo", on_white);
      EXPECT_EQ(image.rgb.size(), 3 * static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height));
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("photo: ")) << error.what();
    }
  }
  expect_error([] { decode_image(as_bytes(std::string("GIF89a\1\0\1\0\0\0\0;", 14)), "photo"); }, {"without an image"});
}

TEST(Tiff, IsTurnedAsItSaysAndDamageIsAnError) {
  if (!reads("TIFF")) GTEST_SKIP() << "built without libtiff 4.5";
  const std::string text = read_file(golden / "images/turned.tif");
  const Image turned = detail::oriented(read_image(golden / "images/lzw.tif"), 6);
  EXPECT_EQ(decode_image(as_bytes(text), "photo"), turned);
  EXPECT_EQ(decode_image(as_bytes(text), "photo", {.orientation = Orientation::upright}), turned);
  for (std::size_t size = 4; size < text.size(); size += 37) {
    try {  // what lies behind the directory is not needed
      EXPECT_EQ(decode_image(as_bytes(text).first(size), "photo"), turned) << size;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("photo: ")) << error.what();
      EXPECT_LT(size, text.size() / 2 + 400);
    }
  }
  for (std::size_t at = 4; at < text.size(); at += 3) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    try {
      (void)decode_image(as_bytes(damaged), "photo", {.transparency = Transparency::on_white, .memory = 100'000'000});
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("photo: ")) << error.what();
    }
  }
}

TEST(Heic, IsWhatLibheifMakesOfIt) {
  if (!reads("HEIC")) GTEST_SKIP() << "built without libheif";
  for (const std::string name : {"colour", "halved", "turned", "alpha"}) {
    const Image ours = read_image(golden / "heic" / (name + ".heic"), on_white);
    const Image theirs = read_image(golden / "heic" / (name + ".heic.png"));
    ASSERT_EQ(ours.width, theirs.width) << name;
    ASSERT_EQ(ours.height, theirs.height) << name;
    // Versions of libheif round differently, and spread colours of half the resolution differently.
    int largest = 0;
    double sum = 0;
    for (std::size_t i = 0; i < ours.rgb.size(); ++i) {
      const int difference = std::abs(ours.rgb[i] - theirs.rgb[i]);
      largest = std::max(largest, difference);
      sum += difference;
    }
    EXPECT_LE(largest, name == "halved" ? 60 : 3) << name;
    EXPECT_LE(sum / static_cast<double>(ours.rgb.size()), name == "halved" ? 2 : 0.6) << name;
  }
}

TEST(Heic, DamageIsAnError) {
  if (!reads("HEIC")) GTEST_SKIP() << "built without libheif";
  const std::string text = read_file(golden / "heic/colour.heic");
  for (const std::size_t size : {text.size() / 8, text.size() / 4, text.size() / 2}) {
    expect_error([&] { decode_image(as_bytes(text).first(size), "photo"); }, {"photo: "});
  }
  expect_error([&] { decode_image(as_bytes(text), "photo", {.memory = 1000}); }, {"photo: ", "decoding it takes"});
}

TEST(Heic, WhatLibheifRefusesIsDamageAndNotAShortageOfMemory) {
  if (!reads("HEIC")) GTEST_SKIP() << "built without libheif";
  std::string text = read_file(golden / "heic/colour.heic");
  text[text.find("ispe") + 12] = 1;  // a height of 16 million
  expect_error([&] { decode_image(as_bytes(text), "photo"); }, {"photo: damaged HEIC", "imit"});
}

TEST(Heic, WithoutLibheifTheErrorNamesTheCommand) {
  if (reads("HEIC")) GTEST_SKIP() << "built with libheif";
  const std::string text = read_file(golden / "heic/colour.heic");
  expect_error([&] { decode_image(as_bytes(text), "photo"); }, {"this is a HEIC image", "heif-convert"});
}

}  // namespace
}  // namespace lamina::test::codecs_test
