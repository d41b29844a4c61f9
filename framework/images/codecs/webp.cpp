#include <webp/decode.h>

#include <vector>

#include "lamina/images/codecs/codec.h"

// WebP, of an animation the first frame, through libwebp with its default settings, as Pillow and so torchvision use
// it: the same pixels.
namespace lamina::detail {
namespace {

constexpr int lossless = 2;  // WebPBitstreamFeatures::format

/// A picture's data, or those of the first frame of an animation, which may cover a part of it.
struct Frame {
  std::span<const std::byte> data;
  WebPBitstreamFeatures features;
  ImageSize whole;  // alpha: where a frame leaves out some of it, too
  std::int64_t left = 0, top = 0;
};

WebPBitstreamFeatures features_of(const EncodedImage& file, std::span<const std::byte> data) {
  WebPBitstreamFeatures features;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(data.data());
  if (WebPGetFeatures(bytes, data.size(), &features) != VP8_STATUS_OK) {
    file.fail("damaged WebP: its header cannot be read");
  }
  file.require_size(features.width, features.height);
  return features;
}

// RIFF: chunks of a name, a length and data, an even number of bytes. ANMF is a frame: its place, size and duration in
// 16 bytes, then chunks as of a picture.
Frame frame_of(const EncodedImage& file) {
  // RIFF states how much follows its first 8 bytes.
  file.require(std::uint64_t{8} + file.le32(4));
  Frame frame{.data = file.bytes(), .features = features_of(file, file.bytes()), .whole = {}};
  frame.whole = {.width = frame.features.width, .height = frame.features.height};
  if (frame.features.has_animation != 0) {
    std::uint64_t at = 12;
    while (file.be32(at) != 0x414e4d46) at += 8 + (std::uint64_t{file.le32(at + 4)} + 1) / 2 * 2;
    const std::uint64_t size = file.le32(at + 4);
    file.require(at + 8 + size);
    if (size < 16) file.fail("damaged WebP: a frame of ", size, " bytes");
    frame.left = 2 * (file.le32(at + 8) & 0xffffff);
    frame.top = 2 * (file.le32(at + 11) & 0xffffff);
    frame.data = file.bytes().subspan(at + 24, size - 16);
    frame.features = features_of(file, frame.data);
  }
  const auto [width, height, memory, alpha] = frame.whole;
  if (frame.left + frame.features.width > width || frame.top + frame.features.height > height) {
    file.fail("damaged WebP: a frame beyond its image");
  }
  const bool covered = frame.features.width == width && frame.features.height == height;
  frame.whole.alpha = frame.features.has_alpha != 0 || !covered;
  return frame;
}

const char* problem_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return "its data end too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "a feature that libwebp does not know";
    default: return "invalid data";
  }
}

}  // namespace

ImageSize check_webp(const EncodedImage& file) {
  const Frame frame = frame_of(file);
  // The result; where pixels may be transparent, RGBA and a plane of opacities; lossless data are decoded to a picture
  // of 4 bytes a pixel first, and so may the opacities be.
  ImageSize size = frame.whole;
  const std::uint64_t bytes = 3u + (size.alpha ? 5u : 0u) + (size.alpha || frame.features.format == lossless ? 4u : 0u);
  size.memory = bytes * static_cast<std::uint64_t>(size.width) * static_cast<std::uint64_t>(size.height);
  return size;
}

Image decode_webp(const EncodedImage& file, const ImageSize& size, bool on_white) {
  const Frame frame = frame_of(file);
  Image image = blank_image(size);
  std::vector<std::uint8_t> rgba(on_white ? image.rgb.size() / 3 * 4 : 0);
  std::vector<std::uint8_t>& target = on_white ? rgba : image.rgb;

  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) file.fail("libwebp is of another version than it was built with");
  config.output.colorspace = on_white ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  const std::int64_t pixel = on_white ? 4 : 3;
  const auto first = static_cast<std::size_t>((frame.top * size.width + frame.left) * pixel);
  config.output.u.RGBA = {target.data() + first, static_cast<int>(size.width * pixel), target.size() - first};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(frame.data.data());
  const VP8StatusCode status = WebPDecode(bytes, frame.data.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) file.fail("damaged WebP: ", problem_of(status));
  if (on_white) lay_on_white(rgba.data(), rgba.size() / 4, image.rgb.data());
  return image;
}

}  // namespace lamina::detail
