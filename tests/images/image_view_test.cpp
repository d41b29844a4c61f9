// Pictures in memory of the caller's: every format is what the same pixels give as RGB, to the bit.

#include "lamina/images/image_view.h"

#include <cmath>

#include "lamina/images/preprocess.h"
#include "support/file_test.h"

namespace lamina::test::image_view_test {
namespace {

constexpr std::uint8_t unread = 0xa5;  // what stands between rows

Preprocess sizes(int resize, int crop) {
  Preprocess settings = torchvision_imagenet();
  settings.resize = resize;
  settings.crop = crop;
  return settings;
}

Image random_image(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  Image image{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3))};
  for (std::uint8_t& level : image.rgb) level = static_cast<std::uint8_t>(random());
  return image;
}

/// The pixels of `image` in a format, rows `gap` bytes apart, in memory that ends with the last pixel: a sanitizer
/// sees a byte too many.
struct Frame {
  std::vector<std::uint8_t> memory;
  ImageView view;
};

Frame frame_of(const Image& image, PixelFormat format, int gap, bool upside_down = false) {
  const bool four = format == PixelFormat::rgba || format == PixelFormat::bgra;
  const bool reversed = format == PixelFormat::bgr || format == PixelFormat::bgra;
  const int bytes = format == PixelFormat::gray ? 1 : four ? 4 : 3;
  const int row = image.width * bytes, stride = row + gap;
  Frame frame;
  frame.memory.assign(static_cast<std::size_t>(stride * (image.height - 1) + row), unread);
  for (int y = 0; y < image.height; ++y) {
    std::uint8_t* out = frame.memory.data() + (upside_down ? image.height - 1 - y : y) * stride;
    for (int x = 0; x < image.width; ++x, out += bytes) {
      const std::uint8_t* rgb = image.rgb.data() + (y * image.width + x) * 3;
      if (bytes == 1) {
        out[0] = rgb[0];
        continue;
      }
      for (int c = 0; c < 3; ++c) out[reversed ? 2 - c : c] = rgb[c];
      if (four) out[3] = static_cast<std::uint8_t>(x * 7);  // an alpha that nobody looks at
    }
  }
  frame.view = {.data = frame.memory.data() + (upside_down ? (image.height - 1) * stride : 0),
                .width = image.width,
                .height = image.height,
                .stride = upside_down ? -stride
                          : gap == 0  ? 0
                                      : stride,
                .format = format};
  return frame;
}

std::vector<std::uint8_t> seen(const ImageView& view, const Preprocess& settings) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(settings.crop * settings.crop * 3), unread);
  resize_and_crop(view, settings, out);
  return out;
}

Image gray(Image image) {
  for (std::size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = image.rgb[i / 3 * 3];
  return image;
}

TEST(ImageView, EveryFormatHasTheBitsOfRgb) {
  const PixelFormat formats[] = {PixelFormat::rgb, PixelFormat::bgr, PixelFormat::rgba, PixelFormat::bgra,
                                 PixelFormat::gray};
  // Wider, taller than twice the width (which is resized the other way round), smaller than the crop, one pixel.
  const std::pair<int, int> pictures[] = {{61, 40}, {23, 67}, {5, 3}, {1, 1}};
  const Preprocess settings[] = {sizes(19, 16), sizes(8, 11), sizes(61, 40)};
  for (const auto& [width, height] : pictures) {
    const Image image = random_image(width, height, 3);
    for (const PixelFormat format : formats) {
      const Image truth = format == PixelFormat::gray ? gray(image) : image;
      for (const Preprocess& how : settings) {
        const Image expected = resize_and_crop(truth, how);
        for (const int gap : {0, 1, 13}) {
          SCOPED_TRACE(testing::Message() << width << " x " << height << ", format " << static_cast<int>(format)
                                          << ", gap " << gap << ", crop " << how.crop);
          const Frame frame = frame_of(image, format, gap);
          EXPECT_EQ(seen(frame.view, how), expected.rgb);
          EXPECT_EQ(seen(frame_of(image, format, gap, true).view, how), expected.rgb);
        }
      }
    }
  }
}

TEST(ImageView, AnImageIsAView) {
  const Image image = random_image(9, 7, 4);
  const ImageView view = image;
  EXPECT_EQ(view.data, image.rgb.data());
  EXPECT_EQ(seen(view, sizes(5, 4)), resize_and_crop(image, sizes(5, 4)).rgb);
  const Image broken{9, 7, std::vector<std::uint8_t>(9 * 7 * 3 - 1)};
  expect_error([&] { (void)ImageView(broken); }, {"9 x 7", "188 bytes"});
}

TEST(ImageView, PreprocessHasTheBitsToo) {
  const Image image = random_image(31, 20, 5);
  const Frame frame = frame_of(image, PixelFormat::bgra, 5);
  const Tensor expected = preprocess(image, sizes(9, 8)), got = preprocess(frame.view, sizes(9, 8));
  EXPECT_TRUE(std::ranges::equal(got.values<float>(), expected.values<float>()));
}

/// A frame of nv12 whose Y, U and V are random, and the RGB that BT.601's formula gives for it.
struct Video {
  std::vector<std::uint8_t> luma, chroma;
  Image rgb;
};

Video video(int width, int height, int stride, unsigned seed) {
  std::mt19937 random(seed);
  const int rows = (height + 1) / 2;
  Video v{std::vector<std::uint8_t>(static_cast<std::size_t>(stride * height)),
          std::vector<std::uint8_t>(static_cast<std::size_t>(stride * rows)),
          {width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3))}};
  for (std::uint8_t& level : v.luma) level = static_cast<std::uint8_t>(random());
  for (std::uint8_t& level : v.chroma) level = static_cast<std::uint8_t>(random());
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const std::uint8_t* uv = v.chroma.data() + y / 2 * stride + x / 2 * 2;
      const double light = 255.0 / 219 * std::max(0, v.luma[static_cast<std::size_t>(y * stride + x)] - 16);
      const double u = (uv[0] - 128) * 255.0 / 112, w = (uv[1] - 128) * 255.0 / 112;
      const double levels[] = {light + 0.701 * w, light - 0.886 * 0.114 / 0.587 * u - 0.701 * 0.299 / 0.587 * w,
                               light + 0.886 * u};
      for (int c = 0; c < 3; ++c) {
        v.rgb.rgb[static_cast<std::size_t>((y * width + x) * 3 + c)] =
            static_cast<std::uint8_t>(std::lround(std::clamp(levels[c], 0.0, 255.0)));
      }
    }
  }
  return v;
}

int largest_difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  int largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(ImageView, Nv12IsVideoOfBt601) {
  for (const auto& [width, height] : {std::pair{16, 16}, {17, 16}, {16, 17}, {1, 1}, {5, 3}}) {
    SCOPED_TRACE(testing::Message() << width << " x " << height);
    const Video v = video(width, height, width + 7, 6);
    ImageView view = {.data = v.luma.data(),
                      .width = width,
                      .height = height,
                      .stride = width + 7,
                      .format = PixelFormat::nv12,
                      .chroma = v.chroma.data()};
    // Resized to itself, and padded or cut: the conversion alone.
    const Preprocess as_it_is = sizes(std::min(width, height), std::max(width, height));
    EXPECT_LE(largest_difference(seen(view, as_it_is), resize_and_crop(v.rgb, as_it_is).rgb), 1);
    const std::vector<std::uint8_t> apart = seen(view, sizes(7, 6));
    // In one piece of memory, U and V follow.
    std::vector<std::uint8_t> whole = v.luma;
    whole.insert(whole.end(), v.chroma.begin(), v.chroma.end());
    view.data = whole.data();
    view.chroma = nullptr;
    EXPECT_EQ(seen(view, sizes(7, 6)), apart);
  }
  // Black, white and the primaries, as OpenCV has them.
  const std::pair<std::array<std::uint8_t, 3>, std::array<std::uint8_t, 3>> colours[] = {
      {{16, 128, 128}, {0, 0, 0}},  {{235, 128, 128}, {255, 255, 255}}, {{0, 128, 128}, {0, 0, 0}},
      {{81, 90, 240}, {254, 0, 0}}, {{145, 54, 34}, {0, 255, 1}},       {{41, 240, 110}, {0, 0, 255}}};
  for (const auto& [yuv, rgb] : colours) {
    const std::vector<std::uint8_t> memory = {yuv[0], 99, yuv[1], yuv[2]};
    const auto out = seen({.data = memory.data(), .width = 1, .height = 1, .format = PixelFormat::nv12}, sizes(1, 1));
    EXPECT_EQ(out, std::vector<std::uint8_t>(rgb.begin(), rgb.end())) << int{yuv[0]};
  }
}

TEST(ImageView, WhatCannotBeReadIsRefused) {
  const Image image = random_image(8, 6, 7);
  const ImageView good = image;
  const auto expect = [&](const auto& change, const std::vector<std::string>& words) {
    ImageView view = good;
    change(view);
    std::vector<std::uint8_t> out(4 * 4 * 3, unread);
    expect_error([&] { resize_and_crop(view, sizes(4, 4), out); }, words);
    EXPECT_EQ(std::ranges::count(out, unread), 48) << "nothing is written on failure";
  };
  expect([](ImageView& v) { v.data = nullptr; }, {"null pointer"});
  expect([](ImageView& v) { v.width = 0; }, {"0 x 6"});
  expect([](ImageView& v) { v.height = -1; }, {"8 x -1"});
  expect([](ImageView& v) { v.width = v.height = 1 << 30; }, {"at most"});
  expect([](ImageView& v) { v.stride = 23; }, {"stride of 24", "8 pixels", "got 23"});
  expect([](ImageView& v) { v.stride = -23; }, {"stride of 24", "got -23"});
  expect([](ImageView& v) { v.stride = std::int64_t{1} << 60; }, {"stride", "1152921504606846976"});
  expect([](ImageView& v) { v.stride = std::numeric_limits<std::int64_t>::min(); }, {"stride"});
  expect([](ImageView& v) { v.format = static_cast<PixelFormat>(99); }, {"nv12", "99"});
  expect([](ImageView& v) { v.chroma = v.data; }, {"chroma with nv12"});
  expect(
      [](ImageView& v) {
        v.format = PixelFormat::rgba;
        v.stride = 31;
      },
      {"stride of 32"});
  expect(
      [](ImageView& v) {
        v.format = PixelFormat::nv12;
        v.stride = -8;
      },
      {"above 0 of nv12"});
  expect([](ImageView& v) { v = {.data = v.data, .width = 7, .height = 6, .stride = 7, .format = PixelFormat::nv12}; },
         {"stride of 8", "7 pixels"});
  std::vector<std::uint8_t> small(4 * 4 * 3 - 1);
  expect_error([&] { resize_and_crop(good, sizes(4, 4), small); }, {"room for 48 bytes", "got 47"});
  expect_error([&] { resize_and_crop(good, sizes(0, 4), small); }, {"resize of at least 1"});
}

}  // namespace
}  // namespace lamina::test::image_view_test
