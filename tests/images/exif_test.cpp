#include "lamina/images/exif.h"

#include "lamina/images/preprocess.h"
#include "support/file_test.h"

namespace lamina::test::exif_test {
namespace {

const std::filesystem::path pictures = LAMINA_TEST_DATA "/golden/images";

std::string big16(std::size_t value) { return {static_cast<char>(value >> 8), static_cast<char>(value & 255)}; }

/// A TIFF directory of one or two tags, the last of them the orientation.
std::string tiff(int orientation, bool big_endian, bool other_tag_first = false) {
  const auto n = [&](std::uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i)) & 255);
    return text;
  };
  std::string out = (big_endian ? "MM" : "II") + n(42, 2) + n(8, 4) + n(other_tag_first ? 2 : 1, 2);
  if (other_tag_first) out += n(0x010f, 2) + n(2, 2) + n(4, 4) + "abc" + std::string(1, '\0');
  return out + n(0x0112, 2) + n(3, 2) + n(1, 4) + n(static_cast<std::uint32_t>(orientation), 2) + n(0, 2) + n(0, 4);
}

/// `jpeg` with EXIF data after its first marker.
std::string with_exif(const std::string& jpeg, const std::string& data) {
  const std::string body = std::string("Exif\0\0", 6) + data;
  return jpeg.substr(0, 2) + "\xff\xe1" + big16(body.size() + 2) + body + jpeg.substr(2);
}

Image decode(const std::string& text, Orientation orientation) {
  return decode_image(as_bytes(text), "photo", {.orientation = orientation});
}

TEST(Exif, OrientationsAreThoseOfPillow) {
  // a b c      What ImageOps.exif_transpose makes of it, read row by row.
  // d e f
  const std::string pixels = "abcdef";
  const std::vector<std::string> expected = {"abcdef", "cbafed", "fedcba", "defabc",
                                             "adbecf", "daebfc", "fcebda", "cfbead"};
  Image image{3, 2, {}};
  for (const char c : pixels) image.rgb.insert(image.rgb.end(), {static_cast<std::uint8_t>(c), 0, 1});
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image turned = detail::oriented(image, orientation);
    std::string found;
    for (std::size_t i = 0; i < turned.rgb.size(); i += 3) {
      found += static_cast<char>(turned.rgb[i]);
      EXPECT_EQ(turned.rgb[i + 2], 1);
    }
    EXPECT_EQ(found, expected[static_cast<std::size_t>(orientation) - 1]) << orientation;
    EXPECT_EQ(turned.width, orientation <= 4 ? 3 : 2) << orientation;
    EXPECT_EQ(turned.height, orientation <= 4 ? 2 : 3) << orientation;
  }
}

TEST(Exif, PhotographsAreTurnedOnlyWhereThatIsAskedFor) {
  if (jpeg_decoder() == "none") GTEST_SKIP() << "built without libjpeg-turbo";
  const std::string jpeg = read_file(pictures / "colour.jpg");
  const Image stored = decode(jpeg, Orientation::as_stored);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool big_endian : {false, true}) {
      for (const bool other : {false, true}) {
        const std::string text = with_exif(jpeg, tiff(orientation, big_endian, other));
        EXPECT_EQ(detail::exif_orientation(as_bytes(text)), orientation);
        EXPECT_EQ(decode(text, Orientation::as_stored), stored);
        EXPECT_EQ(decode(text, Orientation::upright), detail::oriented(stored, orientation));
      }
    }
  }
  const TemporaryDirectory dir;
  write_file(dir / "photo.jpg", with_exif(jpeg, tiff(6, true)));
  EXPECT_EQ(read_image(dir / "photo.jpg"), stored);  // torchvision's habit stays the default
  EXPECT_EQ(read_image(dir / "photo.jpg", {.orientation = Orientation::upright}), detail::oriented(stored, 6));
  const Tensor upright = load_image(dir / "photo.jpg", torchvision_imagenet());
  const Tensor expected = preprocess(detail::oriented(stored, 6), torchvision_imagenet());
  EXPECT_TRUE(std::ranges::equal(upright.values<float>(), expected.values<float>()));
}

TEST(Exif, PngHasAChunkForIt) {
  const std::string data = tiff(8, false);
  std::string png = read_file(pictures / "tiny.png");
  std::string chunk = std::string("\0\0", 2) + big16(data.size()) + "eXIf" + data + "crc?";  // no critical chunk
  png.insert(33, chunk);
  EXPECT_EQ(detail::exif_orientation(as_bytes(png)), 8);
  EXPECT_EQ(decode(png, Orientation::upright), detail::oriented(decode(png, Orientation::as_stored), 8));
}

TEST(Exif, DamageMeansAsStored) {
  const std::string jpeg = read_file(pictures / "colour.jpg");
  for (const int orientation : {0, 9, 255}) {
    EXPECT_EQ(detail::exif_orientation(as_bytes(with_exif(jpeg, tiff(orientation, true)))), 1);
  }
  const std::string good = with_exif("\xff\xd8", tiff(6, true, true));
  for (std::size_t size = 0; size < good.size() - 8; ++size) {
    EXPECT_EQ(detail::exif_orientation(as_bytes(good.substr(0, size))), 1) << size;
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string damaged = good;
      damaged[at] = value;
      const int orientation = detail::exif_orientation(as_bytes(damaged));
      EXPECT_GE(orientation, 1);
      EXPECT_LE(orientation, 8);
    }
  }
}

TEST(DecodingMemory, IsKnownBeforeAnythingIsAllocated) {
  if (jpeg_decoder() == "none") GTEST_SKIP() << "built without libjpeg-turbo";
  const auto memory = [](const char* name) { return decoding_memory(as_bytes(read_file(pictures / name)), name); };
  for (const char* name : {"colour.jpg", "progressive.jpg", "rgba.png", "palette.bmp", "grey.pgm", "colour.tga"}) {
    const Image image = read_image(pictures / name);
    EXPECT_GE(memory(name), image.rgb.size()) << name;
    EXPECT_LE(memory(name), 8 * image.rgb.size() + 100'000) << name;
    const std::string text = read_file(pictures / name);
    EXPECT_EQ(decode_image(as_bytes(text), name, {.memory = memory(name)}), image);
    expect_error([&] { decode_image(as_bytes(text), name, {.memory = memory(name) - 1}); },
                 {name, "decoding it takes", "more than the"});
  }
  EXPECT_GT(memory("progressive.jpg"), memory("colour.jpg"));
}

TEST(DecodingMemory, WhatDoesNotSufficeIsAnError) {
  const TemporaryDirectory dir;
  write_file(dir / "big.ppm", "P6 8000 8000 255\n");
  std::filesystem::resize_file(dir / "big.ppm", 17 + 3 * 8000 * 8000);
  EXPECT_EQ(decoding_memory(as_bytes("P6 8000 8000 255\n"), "big"), 192'000'000u);
  expect_error([&] { read_image(dir / "big.ppm", {.memory = 100'000'000}); }, {"big.ppm", "192 MB", "100 MB"});
}

}  // namespace
}  // namespace lamina::test::exif_test
