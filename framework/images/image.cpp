#include "lamina/images/image.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include "lamina/base/atomic_file.h"
#include "lamina/base/content.h"
#include "lamina/base/text_table.h"
#include "lamina/images/codecs/codec.h"
#include "lamina/images/exif.h"

namespace lamina {
namespace {

const detail::Codec& required_codec(const detail::EncodedImage& file) {
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.empty()) file.fail("expected an image, the file is empty");
  if (bytes.size() > max_image_file_bytes) {
    file.fail("expected an image of at most ", max_image_file_bytes, " bytes, got ", bytes.size());
  }
  if (const detail::Codec* codec = detail::codec_of(bytes)) return *codec;
  file.fail("not an image Lamina reads (", image_formats(), ')', detail::found_content(bytes));
}

/// What a picture is, and what it takes to decode it.
struct Look {
  const detail::Codec& codec;
  detail::ImageSize size;
  int orientation;
  std::uint64_t memory;
};

Look look_at(const detail::EncodedImage& file, const ImageOptions& options) {
  const detail::Codec& codec = required_codec(file);
  const detail::ImageSize size = codec.check(file);
  const int orientation = options.orientation == Orientation::upright ? detail::exif_orientation(file.bytes()) : 1;
  const std::uint64_t both = 6 * static_cast<std::uint64_t>(size.width) * static_cast<std::uint64_t>(size.height);
  return {codec, size, orientation, orientation == 1 ? size.memory : std::max(size.memory, both)};
}

}  // namespace

bool is_image(std::span<const std::byte> bytes) { return detail::codec_of(bytes) != nullptr; }

std::string image_formats() {
  std::string text;
  for (const detail::Codec& codec : detail::codecs()) text += (text.empty() ? "" : ", ") + std::string(codec.name);
  return text;
}

bool detail::is_named_like_image(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string() + '.';
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return extension.size() > 2 && std::ranges::any_of(codecs(), [&](const Codec& codec) {
           return codec.extensions.find(extension) != codec.extensions.npos;
         });
}

Image decode_image(std::span<const std::byte> bytes, std::string_view name, const ImageOptions& options) {
  const detail::EncodedImage file(bytes, name);
  const auto [codec, size, orientation, memory] = look_at(file, options);
  if (memory > options.memory) {
    file.fail("decoding it takes ", detail::format_bytes(memory), " of memory, more than the ",
              detail::format_bytes(options.memory), " that it may take");
  }
  const bool on_white = size.alpha && options.transparency == Transparency::on_white;
  try {
    return detail::oriented(codec.decode(file, size, on_white), orientation);
  } catch (const std::bad_alloc&) {
    detail::fail(ErrorKind::out_of_memory, name, ": out of memory: decoding it takes about ", memory, " bytes");
  }
}

std::uint64_t decoding_memory(std::span<const std::byte> bytes, std::string_view name, const ImageOptions& options) {
  return look_at(detail::EncodedImage(bytes, name), options).memory;
}

std::vector<std::byte> detail::read_image_file(const std::string& path) {
  require_end(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    detail::fail(ErrorKind::file_access, path, ": expected an image, this is a folder");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) detail::fail(kind_of(errno), "cannot read ", path, ": ", detail::words_of(errno, path));

  // The size is only a hint, with one byte more to meet the end by: a pipe has none.
  const std::uintmax_t stated = std::filesystem::file_size(path, ignored);
  std::size_t count = ignored ? 0 : static_cast<std::size_t>(stated);
  const auto require_allowed = [&] {
    if (count <= max_image_file_bytes) return;
    detail::fail(path, ": expected an image of at most ", max_image_file_bytes, " bytes, the file is larger");
  };
  require_allowed();
  std::vector<std::byte> bytes(std::max(count + 1, std::size_t{1} << 12));
  // Of what comes by a pipe no more than shows that it is no picture.
  for (count = 0; file && (count < 64 || is_image(bytes)); require_allowed()) {
    if (count == bytes.size()) bytes.resize(2 * count);
    file.read(reinterpret_cast<char*>(bytes.data() + count), static_cast<std::streamsize>(bytes.size() - count));
    count += static_cast<std::size_t>(file.gcount());
  }
  if (file.bad()) detail::fail(kind_of(errno), path, ": cannot read: ", std::strerror(errno == 0 ? EIO : errno));
  bytes.resize(count);
  return bytes;
}

Image read_image(const std::string& path, const ImageOptions& options) {
  const std::vector<std::byte> bytes = detail::read_image_file(path);
  return decode_image(bytes, path, options);
}

void write_png(const std::string& path, const Image& image) {
  detail::require_consistent(image);
  const std::string encoded = detail::encode_png(image);
  detail::write_file_atomically(path, std::as_bytes(std::span(encoded)));
}

Image::operator ImageView() const {
  detail::require_consistent(*this);
  return {.data = rgb.data(), .width = width, .height = height};
}

namespace detail {

void require_consistent(const Image& image) {
  if (image.width < 1 || image.height < 1 ||
      static_cast<std::uint64_t>(image.width) * static_cast<std::uint64_t>(image.height) * 3 != image.rgb.size()) {
    fail("image of ", image.width, " x ", image.height, " pixels holds ", image.rgb.size(),
         " bytes: expected at least one pixel and three bytes for each");
  }
}

void EncodedImage::require_size(std::int64_t width, std::int64_t height) const {
  if (width < 1 || height < 1) fail("damaged: the header says ", width, " x ", height, " pixels");
  // Dividing avoids the overflow that multiplying sizes from a file invites.
  if (width > max_image_pixels / height) {
    fail("too large: the header says ", width, " x ", height, " pixels; at most ", max_image_pixels / 1'000'000,
         " megapixels are allowed");
  }
}

void EncodedImage::require_data(std::int64_t width, std::int64_t height, std::uint64_t least, std::uint64_t size,
                                std::string_view format) const {
  if (least <= size) return;
  fail("damaged: ", size, " bytes of ", format, " data cannot hold ", width, " x ", height, " pixels");
}

ImageSize plain_size(const EncodedImage& file, std::int64_t width, std::int64_t height) {
  file.require_size(width, height);
  return {static_cast<int>(width), static_cast<int>(height), static_cast<std::uint64_t>(width * height * 3)};
}

Image blank_image(const ImageSize& size) {
  return {size.width, size.height,
          std::vector<std::uint8_t>(3 * static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height))};
}

void lay_on_white(const std::uint8_t* rgba, std::size_t count, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < count; ++i, rgba += 4, rgb += 3) {
    const unsigned opacity = rgba[3];
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned sum = rgba[c] * opacity + 255 * (255 - opacity) + 128;
      rgb[c] = static_cast<std::uint8_t>((sum + (sum >> 8)) >> 8);
    }
  }
}

}  // namespace detail
}  // namespace lamina
