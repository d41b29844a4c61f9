#include "lamina/images/image.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "lamina/base/error.h"
#include "lamina/images/codecs/codec.h"
#include "lamina/images/exif.h"
#include "support/file_test.h"

namespace lamina::test::image_test {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
const fs::path pictures = LAMINA_TEST_DATA "/golden/images";

/// A file of that content, and its path.
fs::path written(const TemporaryDirectory& directory, const char* name, std::string_view content) {
  write_file(directory / name, content);
  return directory / name;
}

Image decode(std::string_view text) { return decode_image(as_bytes(text), "photo"); }

std::string decode_error(std::string_view text) {
  return error_of([&] { decode(text); });
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

std::string little(std::uint64_t value, int count) {
  std::string text;
  for (; count > 0; --count, value >>= 8) text += static_cast<char>(value & 255);
  return text;
}

std::string big(std::uint64_t value, int count) {
  const std::string text = little(value, count);
  return {text.rbegin(), text.rend()};
}

std::string bmp_header(int width, int height, int bits = 24, int compression = 0, int header = 40) {
  return "BM" + little(0, 8) + little(54, 4) + little(static_cast<std::uint32_t>(header), 4) +
         little(static_cast<std::uint32_t>(width), 4) + little(static_cast<std::uint32_t>(height), 4) + little(1, 2) +
         little(static_cast<std::uint32_t>(bits), 2) + little(static_cast<std::uint32_t>(compression), 4) +
         little(0, 20);
}

std::string tga_header(std::uint32_t width, std::uint32_t height, int type = 2, int bits = 24, int descriptor = 0x20) {
  return std::string{0, 0, static_cast<char>(type)} + little(0, 9) + little(width, 2) + little(height, 2) +
         static_cast<char>(bits) + static_cast<char>(descriptor);
}

std::string png_chunk(const std::string& type, const std::string& data) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : type + data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return big(static_cast<std::uint32_t>(data.size()), 4) + type + data + big(~crc, 4);
}

std::string png(std::uint32_t width, std::uint32_t height, const std::string& compressed) {
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big(width, 4) + big(height, 4) + std::string{8, 2, 0, 0, 0}) +
         png_chunk("IDAT", compressed) + png_chunk("IEND", "");
}

std::string jpeg_header(std::uint32_t width, std::uint32_t height) {
  return "\xff\xd8\xff\xc0" + big(17, 2) + '\x08' + big(height, 2) + big(width, 2) +
         std::string{3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0};
}

std::vector<fs::path> small_pictures() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(pictures)) {
    if (entry.file_size() < 16000 && detail::is_named_like_image(entry.path())) paths.push_back(entry.path());
  }
  EXPECT_GT(paths.size(), 40u);
  return paths;
}

// PNG, BMP, TGA, PGM, PPM and JPEG are compared with Pillow bit for bit in preprocess_test.cpp.
TEST(Image, ContentDecidesNotTheName) {
  const TemporaryDirectory directory;
  const fs::path renamed = written(directory, "photo.jpg", read_file(pictures / "tiny.png"));
  EXPECT_EQ(read_image(renamed), read_image(pictures / "tiny.png"));
}

TEST(Image, IsImageLooksAtTheContent) {
  for (const fs::path& path : small_pictures()) {
    const std::string text = read_file(path);
    EXPECT_TRUE(is_image(as_bytes(text))) << path;
    EXPECT_TRUE(is_image(as_bytes(text).first(32))) << path;
  }
  const std::string json = R"({"__metadata__":{"format":"pt"},"weight":{"dtype":"F32","shape":[96,3,11,11]}})";
  EXPECT_FALSE(is_image({}));
  EXPECT_FALSE(is_image(as_bytes("BM")));
  EXPECT_FALSE(is_image(as_bytes("P6")));
  EXPECT_FALSE(is_image(as_bytes("BMW and other words that begin with these letters")));
  EXPECT_FALSE(is_image(as_bytes("\x93NUMPY\x01" + std::string(1, '\0') + "v" + json)));
  EXPECT_FALSE(is_image(as_bytes("PK\x03\x04" + std::string(40, '\0'))));
  EXPECT_FALSE(is_image(as_bytes("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19 and so on")));
  // A safetensors file whose header length has the byte that means "true colour" where TGA keeps its type.
  EXPECT_FALSE(is_image(as_bytes(little(0x00020050, 8) + json)));
  EXPECT_FALSE(is_image(as_bytes(little(static_cast<std::uint32_t>(json.size()), 8) + json)));
}

TEST(Image, EveryTruncationIsAnError) {
  for (const fs::path& path : small_pictures()) {
    const std::string text = read_file(path);
    if (path.extension() == ".tif" || path.stem() == "animated") continue;  // much of them is not needed
    // The last row of a BMP may lack its padding, a TGA its footer, and a GIF its end.
    std::size_t spare = path.extension() == ".gif" ? 1 : 0;
    if (path.extension() == ".jpg") spare = 2;
    if (path.extension() == ".tga") spare = 26;
    if (path.extension() == ".bmp") spare = (4 - static_cast<std::size_t>(text[18] * text[28] + 7) / 8 % 4) % 4;
    const Image whole = decode(text);
    for (std::size_t size = 0; size < text.size(); ++size) {
      if (size >= 200 && size + 200 < text.size() && size % 13 != 0) continue;
      if (size + spare < text.size()) {
        const std::string error = decode_error(std::string_view(text).substr(0, size));
        ASSERT_TRUE(error.starts_with("photo: ")) << path << " cut to " << size << " bytes: " << error;
        const bool said = contains(error, "truncated: ") || contains(error, "damaged JPEG");
        ASSERT_TRUE(size < 32 || said) << path << " cut to " << size << " bytes: " << error;
      } else {
        ASSERT_EQ(decode(std::string_view(text).substr(0, size)).rgb, whole.rgb) << path << " cut to " << size;
      }
    }
  }
}

TEST(Image, BytesAfterThePictureAreIgnored) {
  for (const fs::path& path : small_pictures()) {
    const std::string text = read_file(path);
    EXPECT_EQ(decode(text + "\xff\xd8 more bytes \xff"), decode(text)) << path;
  }
}

TEST(Image, WhatIsNoPictureSaysWhatWasFound) {
  EXPECT_EQ(decode_error("\x91\x92 \"and more"), "photo: not an image Lamina reads (" + image_formats() +
                                                     "); the file starts with "
                                                     "\"\\x91\\x92 \\x22and more\"");
  EXPECT_EQ(decode_error("\xff\x0a and more"), "photo: not an image Lamina reads (" + image_formats() +
                                                   "): this is a JPEG XL image; djxl makes a PNG of it: djxl "
                                                   "IN.jxl OUT.png");
  EXPECT_TRUE(contains(decode_error("<!doctype html><p>404"), "this is an HTML page"));
  EXPECT_TRUE(contains(decode_error("%PDF-1.7"), "this is a PDF document"));
  EXPECT_EQ(decode_error(""), "photo: expected an image, the file is empty");
  std::string garbage;
  for (int i = 0; i < 5000; ++i) garbage += static_cast<char>(i * i * 7 + 0x91);
  EXPECT_TRUE(contains(decode_error(garbage), "not an image Lamina reads"));
}

TEST(Image, UnreadableFilesSayWhy) {
  const TemporaryDirectory directory;
  const fs::path missing = directory.path() / "missing.png";
  EXPECT_EQ(error_of([&] { read_image(missing); }), "cannot read " + missing.string() + ": there is no such file");
  EXPECT_EQ(error_of([&] { read_image(directory.path()); }),
            directory.path().string() + ": expected an image, this is a folder");
  const fs::path empty = written(directory, "empty.png", "");
  EXPECT_EQ(error_of([&] { read_image(empty); }), empty.string() + ": expected an image, the file is empty");
  const fs::path cut = written(directory, "cut.png", read_file(pictures / "grey.png").substr(0, 1000));
  EXPECT_TRUE(error_of([&] { read_image(cut); }).starts_with(cut.string() + ": truncated: expected at least "));
}

TEST(Image, WhatHasNoEndIsRefused) {
  const TemporaryDirectory directory;
  const std::string pipe = directory / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { read_image(pipe); }),
            "cannot read " + pipe + ": expected a regular file, this is a named pipe");
  EXPECT_EQ(error_of([] { read_image("/dev/zero"); }),
            "cannot read /dev/zero: expected a regular file, this is a device");
}

/// As a shell gives `<(command)`: read to its end, but no further than it takes to see that it is no picture.
TEST(Image, APipeOfTheProcessIsRead) {
  for (const std::string& text : {read_file(pictures / "rgb16.ppm"), std::string(60000, 'x')}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<::ssize_t>(text.size()));
    ::close(ends[1]);
    const std::string path = "/dev/fd/" + std::to_string(ends[0]);
    EXPECT_EQ(detail::read_image_file(path).size(), text[0] == 'P' ? text.size() : 4096);
    ::close(ends[0]);
  }
}

TEST(Image, GiantsWithoutDataAreRefused) {
  const std::string too_large =
      "photo: too large: the header says 30000 x 30000 pixels; at most 250 megapixels are allowed";
  EXPECT_EQ(decode_error(png(30000, 30000, "")), too_large);
  EXPECT_EQ(decode_error(bmp_header(30000, 30000)), too_large);
  EXPECT_EQ(decode_error(tga_header(30000, 30000)), too_large);
  EXPECT_EQ(decode_error("P6\n30000 30000\n255\n"), too_large);
  EXPECT_TRUE(contains(decode_error("P5 4294967295 4294967295 255\n"), "too large"));
  EXPECT_TRUE(contains(decode_error("P5 99999999999999999999 1 255\n"), "width in its header is out of range"));
  EXPECT_TRUE(contains(decode_error(png(0xffffffff, 0xffffffff, "")), "too large"));
  // Allowed sizes with nothing behind the header.
  EXPECT_EQ(decode_error(png(10000, 10000, "")),
            "photo: damaged: 0 bytes of PNG data cannot hold 10000 x 10000 pixels");
  EXPECT_EQ(decode_error(bmp_header(10000, 10000)),
            "photo: truncated: expected at least 300000054 bytes, the file has 54");
  EXPECT_TRUE(contains(decode_error(tga_header(10000, 10000)), "truncated"));
  EXPECT_TRUE(contains(decode_error(tga_header(10000, 10000, 10)), "truncated"));
  EXPECT_TRUE(contains(decode_error("P6\n10000 10000\n255\n"), "truncated"));
  EXPECT_EQ(decode_error("GIF89a" + little(15000, 2) + little(15000, 2) + little(0, 3) + "," + little(0, 4) +
                         little(1, 2) + little(1, 2) + little(0, 1) + "\2\0\0;"s),
            "photo: damaged: 27 bytes of GIF data cannot hold 15000 x 15000 pixels");
  if (jpeg_decoder() != "none") {
    EXPECT_EQ(decode_error(jpeg_header(30000, 30000)), too_large);
    EXPECT_TRUE(contains(decode_error(jpeg_header(9000, 9000)), "truncated"));
    const std::string scan = "\xff\xda" + big(8, 2) + std::string{1, 1, 0, 0, 63, 0} + "\xff\xd9";
    EXPECT_EQ(decode_error(jpeg_header(9000, 9000) + scan),
              "photo: damaged: 33 bytes of JPEG data cannot hold 9000 x 9000 pixels");
  }
  // 237 million pixels of 16 bits, and 1,200 bytes of them.
  std::string tiff = "II*\0\x8\0\0\0"s + little(7, 2);
  for (const auto [tag, value] :
       {std::array{256u, 11'862'046u}, {257u, 20u}, {258u, 16u}, {259u, 1u}, {262u, 1u}, {273u, 98u}, {279u, 1200u}}) {
    tiff += little(tag, 2) + little(4, 2) + little(1, 4) + little(value, 4);
  }
  tiff += std::string(1204, 'x');
  if (image_formats().find("TIFF") == std::string::npos) GTEST_SKIP() << "built without libtiff";
  EXPECT_EQ(decode_error(tiff), "photo: damaged: 1298 bytes of TIFF data cannot hold 11862046 x 20 pixels");
}

TEST(Image, PicturesWithoutPixelsAreRefused) {
  EXPECT_EQ(decode_error("P6\n0 5\n255\n"), "photo: damaged: the header says 0 x 5 pixels");
  EXPECT_EQ(decode_error(png(0, 5, "")), "photo: damaged: the header says 0 x 5 pixels");
  EXPECT_EQ(decode_error(bmp_header(5, 0)), "photo: damaged: the header says 5 x 0 pixels");
  EXPECT_TRUE(contains(decode_error(bmp_header(-5, 5)), "damaged"));
  EXPECT_TRUE(contains(decode_error(bmp_header(5, static_cast<int>(0x80000000))), "too large"));
}

TEST(Image, DamagedPngIsAnError) {
  std::string text = read_file(pictures / "rgba.png");
  text[text.size() - 100] = static_cast<char>(text[text.size() - 100] ^ 1);
  EXPECT_TRUE(contains(decode_error(text), "the checksum of the PNG chunk at byte "));
  EXPECT_EQ(decode_error(png(3, 3, "\x78\x9c\x07")), "photo: damaged PNG: invalid data")
      << "an invalid block type in the compressed data";
  // A stored block of 3 bytes where 9 are due.
  const std::string block = std::string{0x78, 0x01, 0x01} + little(3, 2) + little(0xfffc, 2) + "abc" + big(0, 4);
  EXPECT_EQ(decode_error(png(2, 1, block)), "photo: damaged PNG: not enough pixels");
}

class Jpeg : public testing::Test {
 protected:
  void SetUp() override {
    if (jpeg_decoder() == "none") GTEST_SKIP() << "built without libjpeg-turbo";
  }
};

TEST_F(Jpeg, DamageIsAnError) {
  // A Huffman table that claims 16 * 255 symbols.
  const std::string table =
      "\xff\xc4" + big(2 + 17 + 4080, 2) + '\x00' + std::string(16, '\xff') + std::string(4080, 'x');
  const std::string end = "\xff\xd9";
  EXPECT_EQ(decode_error("\xff\xd8" + table + end), "photo: damaged: a JPEG Huffman table of 4080 symbols");
  EXPECT_EQ(decode_error("\xff\xd8\xff\xe0" + big(1, 2) + end), "photo: damaged: a JPEG segment of 1 bytes at byte 4");
  EXPECT_EQ(decode_error("\xff\xd8" + end), "photo: damaged: a JPEG without a frame");
  EXPECT_TRUE(contains(decode_error("\xff\xd8\xff\xe0" + big(999, 2) + end), "truncated"));
  std::string arithmetic = jpeg_header(8, 8) + end;
  arithmetic[3] = '\xc9';
  EXPECT_EQ(decode_error(arithmetic), "photo: lossless, hierarchical or arithmetic-coded JPEG is not read");
}

/// As djpeg and browsers do; Pillow refuses it, and there is nothing in it that a network would not see.
TEST_F(Jpeg, WithoutItsEndMarkerIsAWarning) {
  for (const char* name : {"colour.jpg", "subsampled.jpg", "grey.jpg", "cmyk.jpg", "restarts.jpg", "progressive.jpg"}) {
    const std::string text = read_file(pictures / name);
    for (const std::size_t left : {0, 1}) {
      const Image image = decode(text.substr(0, text.size() - 2 + left));
      EXPECT_EQ(image.rgb, decode(text).rgb) << name;
      EXPECT_EQ(image.warning, "photo: the JPEG's end marker is missing; its pixels are all there") << name;
      EXPECT_EQ(detail::oriented(image, 6).warning, image.warning);
    }
    EXPECT_TRUE(contains(decode_error(text.substr(0, text.size() - 40)),
                         "photo: truncated: the file ends before its pixels do"))
        << name;
  }
  // Of a progressive one the last scan, which refines what is there: nothing else is missed.
  const std::string text = read_file(pictures / "progressive.jpg");
  EXPECT_EQ(decode_error(text.substr(0, text.rfind("\xff\xda"))),
            "photo: truncated: the file ends before its pixels do; copy or download it again");
}

// The markers are whole, the pixels between them are not.
TEST_F(Jpeg, WithoutAllOfItsPixelsIsAnError) {
  for (const char* name : {"colour.jpg", "progressive.jpg", "grey.jpg", "cmyk.jpg"}) {
    std::string text = read_file(pictures / name);
    text.erase(text.size() - 302, 300);
    EXPECT_EQ(decode_error(text), "photo: damaged JPEG: Corrupt JPEG data: premature end of data segment") << name;
  }
  std::string text = read_file(pictures / "restarts.jpg");
  text.erase(text.find("\xff\xd2"), 2);
  EXPECT_TRUE(contains(decode_error(text), "damaged JPEG: Corrupt JPEG data")) << decode_error(text);
}

TEST_F(Jpeg, WithoutTablesIsAnError) {
  std::string text = read_file(pictures / "colour.jpg");
  for (std::size_t at = 0; (at = text.find("\xff\xdb", at)) != text.npos;) text[at + 1] = '\xfe';  // a comment
  EXPECT_EQ(decode_error(text), "photo: damaged JPEG: Quantization table 0x00 was not defined");
}

// Damage anywhere ends in a picture or an Error, never in a crash: sanitizers watch.
TEST_F(Jpeg, DamageNeverCrashes) {
  for (const char* name : {"colour.jpg", "progressive.jpg", "grey.jpg", "cmyk.jpg", "restarts.jpg"}) {
    const std::string text = read_file(pictures / name);
    for (std::size_t at = 0; at < text.size(); at += 7) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (at % 2 == 0 ? 0x10 : 0xff));
      const std::string error = decode_error(damaged);
      ASSERT_TRUE(error == "no error" || error.starts_with("photo: ")) << name << " at " << at << ": " << error;
    }
  }
}

TEST_F(Jpeg, OfTooManyScansIsRefused) {
  std::string scans;
  for (int i = 0; i < 600; ++i) scans += "\xff\xda" + big(8, 2) + std::string{1, 1, 0, 0, 63, 0};
  EXPECT_EQ(decode_error(jpeg_header(8, 8) + scans + "\xff\xd9"), "photo: damaged: a JPEG of more than 500 scans");
}

TEST_F(Jpeg, OfFourChannelsNeedsAdobesMarker) {
  std::string text = read_file(pictures / "cmyk.jpg");
  text.replace(text.find("Adobe"), 5, "Other");
  EXPECT_TRUE(contains(decode_error(text), "a JPEG of four channels is read only if Adobe's marker says which"));
}

TEST(Image, KindsOfBmpThatAreNotReadSaySo) {
  EXPECT_TRUE(contains(decode_error(bmp_header(2, 2, 8, 1)), "run-length encoded BMP is not read"));
  EXPECT_TRUE(contains(decode_error(bmp_header(2, 2, 24, 4)), "BMP with compression 4 is not read"));
  EXPECT_TRUE(contains(decode_error(bmp_header(2, 2, 2)), "BMP with 2 bits per pixel is not read"));
  EXPECT_TRUE(contains(decode_error(bmp_header(2, 2, 24, 0, 41)), "its header has 41 bytes"));
}

TEST(Image, BmpPixelsBeginWhereTheHeaderSays) {
  std::string text = bmp_header(1, 1);
  text[10] = 60;
  EXPECT_EQ(decode(text + "unused" + "BGR"), (Image{1, 1, {'R', 'G', 'B'}}));
}

TEST(Image, TgaOrderAndRunLengths) {
  const std::string rgb = "bgrBGR";  // stored as blue, green, red
  const Image forward{2, 1, {'r', 'g', 'b', 'R', 'G', 'B'}}, backward{2, 1, {'R', 'G', 'B', 'r', 'g', 'b'}};
  EXPECT_EQ(decode(tga_header(2, 1) + rgb), forward);
  EXPECT_EQ(decode(tga_header(2, 1, 2, 24, 0x10) + rgb), backward);
  EXPECT_EQ(decode(tga_header(2, 1, 10) + '\x01' + rgb), forward);
  EXPECT_EQ(decode(tga_header(2, 1, 10) + '\xff' + "bgr"), (Image{2, 1, {'r', 'g', 'b', 'r', 'g', 'b'}}));
  EXPECT_TRUE(contains(decode_error(tga_header(2, 1, 10) + '\x00' + "bgr"), "truncated"));
}

TEST(Image, PnmHeadersMayHoldComments) {
  const Image grey{2, 1, {7, 7, 7, 10, 10, 10}};
  EXPECT_EQ(decode("P5#one\n2# two\r\n\t1 #three\n255\n\x07\n"), grey) << "the second pixel is a line feed";
  EXPECT_TRUE(contains(decode_error("P5 2 x 255\n  "), "expected the height in its header, found a byte 120"));
  EXPECT_TRUE(contains(decode_error("P5 2 1 0\n  "), "the largest value is 0; expected 1 to 65535"));
  EXPECT_TRUE(contains(decode_error("P5 2 1 65536\n    "), "the largest value is 65536"));
}

TEST(Image, WritePngKeepsEveryPixel) {
  const TemporaryDirectory directory;
  for (const char* name : {"portrait.png", "one.png", "strip.png"}) {
    const Image image = read_image(pictures / name);
    write_png(directory.path() / "copy.png", image);
    EXPECT_EQ(read_image(directory.path() / "copy.png"), image) << name;
  }
}

TEST(Image, WritePngLeavesTheOldFileWhenItFails) {
  const TemporaryDirectory directory;
  const fs::path path = written(directory, "old.png", "old");
  EXPECT_EQ(error_of([&] {
              write_png(path, Image{2, 2, {1, 2, 3}});
            }),
            "image of 2 x 2 pixels holds 3 bytes: expected at least one pixel and three bytes for each");
  EXPECT_EQ(read_file(path), "old");
  const fs::path nowhere = directory.path() / "missing" / "new.png";
  EXPECT_TRUE(contains(error_of([&] { write_png(nowhere, Image{1, 1, {1, 2, 3}}); }), nowhere.string()));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1) << "a temporary file was left behind";
}

}  // namespace
}  // namespace lamina::test::image_test
