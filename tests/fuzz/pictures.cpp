// Pictures: decoded, turned upright, resized.

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "fuzz/target.h"
#include "lamina/images/codecs/codec.h"
#include "lamina/images/preprocess.h"

namespace lamina::fuzz {
namespace {

constexpr std::int64_t max_pixels = 1 << 16;  // more take longer and find no more

void require_whole(const Image& image) {
  const auto pixels = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
  if (image.width < 1 || image.height < 1 || image.rgb.size() != 3 * pixels) broken("a picture has its pixels");
}

/// `size` says how large the picture claims to be; throws Error.
void decode(Bytes input, detail::ImageSize (*size)(const detail::EncodedImage&)) {
  const std::vector<std::byte> bytes = [&] {  // in a block of exactly its size
    const auto span = std::as_bytes(input);
    return std::vector<std::byte>(span.begin(), span.end());
  }();
  const detail::Codec* codec = detail::codec_of(bytes);
  if (codec == nullptr || codec->check != size) return;
  const detail::EncodedImage file(bytes, "picture");
  try {
    const detail::ImageSize claimed = size(file);
    if (std::int64_t{claimed.width} * claimed.height > max_pixels) return;
  } catch (const Error&) {
    return;
  }
  try {
    const ImageOptions options{.orientation = input.size() % 2 == 0 ? Orientation::upright : Orientation::as_stored,
                               .transparency = input.size() % 3 == 0 ? Transparency::on_white : Transparency::ignored};
    const Image image = decode_image(bytes, "picture", options);
    require_whole(image);
    Preprocess small = torchvision_imagenet();
    small.resize = 16;
    small.crop = 12;
    if (input.size() % 4 < 2) small.aspect = Aspect::ignored;
    require_whole(resize_and_crop(image, small));
  } catch (const Error&) {
  }
}

}  // namespace

void png(Bytes input) { decode(input, detail::check_png); }

void jpeg(Bytes input) { decode(input, detail::check_jpeg); }

namespace {

/// What a build reads of these formats.
void decode_if(Bytes input, std::initializer_list<std::string_view> names) {
  const detail::Codec* codec = detail::codec_of(std::as_bytes(input));
  if (codec != nullptr && std::ranges::find(names, codec->name) != names.end()) decode(input, codec->check);
}

}  // namespace

void bitmap(Bytes input) { decode_if(input, {"BMP", "TGA", "PGM", "PPM", "GIF", "TIFF"}); }

void webp(Bytes input) { decode_if(input, {"WebP"}); }

void heic(Bytes input) { decode_if(input, {"HEIC", "AVIF"}); }

}  // namespace lamina::fuzz
