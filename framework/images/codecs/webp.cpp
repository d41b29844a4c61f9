#include <webp/decode.h>

#include <vector>

#include "lamina/images/codecs/codec.h"

// WebP through libwebp with its default settings, as Pillow and so torchvision use it: the same pixels.
namespace lamina::detail {
namespace {

constexpr int lossless = 2;  // WebPBitstreamFeatures::format

WebPBitstreamFeatures features_of(const EncodedImage& file) {
  // RIFF states how much follows its first 8 bytes.
  file.require(std::uint64_t{8} + file.le32(4));
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(0, file.size()), file.size(), &features) != VP8_STATUS_OK) {
    file.fail("damaged WebP: its header cannot be read");
  }
  if (features.has_animation != 0) {
    file.fail(
        "an animated WebP is not read; webpmux takes a frame out of it: webpmux -get frame 1 IN.webp -o OUT.webp");
  }
  file.require_size(features.width, features.height);
  return features;
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
  const WebPBitstreamFeatures features = features_of(file);
  const bool alpha = features.has_alpha != 0;
  // The result; where pixels may be transparent, RGBA and a plane of opacities; lossless data are decoded to a picture
  // of 4 bytes a pixel first, and so may the opacities be.
  const std::uint64_t bytes = 3u + (alpha ? 5u : 0u) + (alpha || features.format == lossless ? 4u : 0u);
  const auto pixels = static_cast<std::uint64_t>(features.width) * static_cast<std::uint64_t>(features.height);
  return {features.width, features.height, bytes * pixels, alpha};
}

Image decode_webp(const EncodedImage& file, const ImageSize& size, bool on_white) {
  Image image = blank_image(size);
  std::vector<std::uint8_t> rgba(on_white ? image.rgb.size() / 3 * 4 : 0);
  std::vector<std::uint8_t>& target = on_white ? rgba : image.rgb;

  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) file.fail("libwebp is of another version than it was built with");
  config.output.colorspace = on_white ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {target.data(), size.width * (on_white ? 4 : 3), target.size()};
  const VP8StatusCode status = WebPDecode(file.data(0, file.size()), file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) file.fail("damaged WebP: ", problem_of(status));
  if (on_white) lay_on_white(rgba.data(), rgba.size() / 4, image.rgb.data());
  return image;
}

}  // namespace lamina::detail
