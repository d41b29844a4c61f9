#include "lamina/images/image_view.h"

#include <algorithm>
#include <cstdlib>

#include "lamina/base/error.h"
#include "lamina/images/image.h"

namespace lamina::detail {
namespace {

/// How a pixel of a format other than nv12 lies in memory.
struct Bytes {
  std::int64_t pixel;    // bytes from one to the next
  int red, green, blue;  // places in it
};

Bytes bytes_of(PixelFormat format) {
  switch (format) {
    case PixelFormat::rgb: return {3, 0, 1, 2};
    case PixelFormat::bgr: return {3, 2, 1, 0};
    case PixelFormat::rgba: return {4, 0, 1, 2};
    case PixelFormat::bgra: return {4, 2, 1, 0};
    case PixelFormat::gray:
    case PixelFormat::nv12: return {1, 0, 0, 0};  // the Y of nv12
  }
  fail("image: expected rgb, bgr, rgba, bgra, gray or nv12, got format ", static_cast<int>(format));
}

std::int64_t row_bytes(const ImageView& image) {
  const std::int64_t samples = image.format == PixelFormat::nv12 ? image.width + image.width % 2 : image.width;
  return samples * bytes_of(image.format).pixel;
}

// BT.601 from Y of 16 to 235 and chroma of 16 to 240, in fixed point: 1.164, 2.018, -0.391, -0.813 and 1.596.
constexpr int level_bits = 20;
constexpr int luma = 1220542, blue_u = 2116026, green_u = -409993, green_v = -852492, red_v = 1673527;

std::uint8_t to_level(int sum) { return static_cast<std::uint8_t>(std::clamp(sum >> level_bits, 0, 255)); }

void convert_yuv(int y, int u, int v, std::uint8_t* rgb) {
  const int light = std::max(0, y - 16) * luma + (1 << (level_bits - 1));
  rgb[0] = to_level(light + red_v * (v - 128));
  rgb[1] = to_level(light + green_u * (u - 128) + green_v * (v - 128));
  rgb[2] = to_level(light + blue_u * (u - 128));
}

}  // namespace

void require_consistent(const ImageView& image) {
  if (image.data == nullptr) fail("image: expected pixels, got a null pointer");
  if (image.width < 1 || image.height < 1) {
    fail("image: expected at least one pixel, got ", image.width, " x ", image.height);
  }
  if (std::int64_t{image.width} * image.height > max_image_pixels) {
    fail("image: expected at most ", max_image_pixels, " pixels, got ", image.width, " x ", image.height);
  }
  constexpr std::int64_t longest = std::int64_t{1} << 31;  // times a height, within 64 bits
  const std::int64_t needed = row_bytes(image);
  if (image.stride != 0 && (image.stride < -longest || image.stride > longest || std::abs(image.stride) < needed)) {
    fail("image: expected a stride of ", needed, " to ", longest, " bytes for a row of ", image.width, " pixels, got ",
         image.stride);
  }
  const bool planar = image.format == PixelFormat::nv12;
  if (planar && image.stride < 0) fail("image: expected a stride above 0 of nv12, got ", image.stride);
  if (!planar && image.chroma != nullptr) fail("image: expected a plane of chroma with nv12 alone");
}

RowReader::RowReader(const ImageView& image, std::size_t first, std::size_t count)
    : image_(image), stride_(image.stride == 0 ? row_bytes(image) : image.stride), first_(first), count_(count) {
  if (image.format != PixelFormat::rgb) converted_.resize(count * 3);
  const bool follows = image.format == PixelFormat::nv12 && image.chroma == nullptr;
  if (follows) image_.chroma = image.data + stride_ * image.height;
}

const std::uint8_t* RowReader::row(std::size_t y) {
  const std::uint8_t* row = image_.data + stride_ * static_cast<std::int64_t>(y);
  if (image_.format == PixelFormat::rgb) return row + first_ * 3;
  std::uint8_t* rgb = converted_.data();
  if (image_.format == PixelFormat::nv12) {
    const std::uint8_t* chroma = image_.chroma + stride_ * static_cast<std::int64_t>(y / 2);
    for (std::size_t x = first_; x < first_ + count_; ++x, rgb += 3) {
      const std::uint8_t* uv = chroma + x / 2 * 2;
      convert_yuv(row[x], uv[0], uv[1], rgb);
    }
    return converted_.data();
  }
  const Bytes bytes = bytes_of(image_.format);
  const std::uint8_t* pixel = row + static_cast<std::int64_t>(first_) * bytes.pixel;
  for (std::size_t i = 0; i < count_; ++i, pixel += bytes.pixel, rgb += 3) {
    rgb[0] = pixel[bytes.red];
    rgb[1] = pixel[bytes.green];
    rgb[2] = pixel[bytes.blue];
  }
  return converted_.data();
}

}  // namespace lamina::detail
