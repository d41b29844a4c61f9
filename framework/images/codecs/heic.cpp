#include <libheif/heif.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>

#include "lamina/images/codecs/codec.h"

// HEIC and AVIF through libheif: the primary picture, cropped, turned and mirrored as the file says.
namespace lamina::detail {
namespace {

template <auto release>
struct Release {
  void operator()(auto* object) const { release(object); }
};
using Context = std::unique_ptr<heif_context, Release<heif_context_free>>;
using Handle = std::unique_ptr<heif_image_handle, Release<heif_image_handle_release>>;
using Pixels = std::unique_ptr<heif_image, Release<heif_image_release>>;
using Options = std::unique_ptr<heif_decoding_options, Release<heif_decoding_options_free>>;

struct Opened {
  Context context;
  Handle picture;
};

void require(const EncodedImage& file, const heif_error& error) {
  if (error.code == heif_error_Ok) return;
  // What a damaged file asks for beyond libheif's own limits is no shortage of memory.
  const bool refused = error.subcode == heif_suberror_Security_limit_exceeded;
  if (error.code == heif_error_Memory_allocation_error && !refused) throw std::bad_alloc();
  if (error.code == heif_error_Unsupported_feature || error.code == heif_error_Unsupported_filetype) {
    file.fail("libheif cannot read this image: ", error.message,
              "; it may lack a decoder (on Debian and Ubuntu: apt install libheif-plugin-libde265, for AVIF "
              "libheif-plugin-dav1d)");
  }
  file.fail("damaged HEIC: ", error.message);
}

/// Runs `action`. libheif is C++ behind its C functions, and lets exceptions through.
auto guarded(const EncodedImage& file, const auto& action) {
  try {
    return action();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    file.fail("damaged HEIC: ", error.what());
  }
}

Opened open(const EncodedImage& file) {
  Opened result{Context(heif_context_alloc()), nullptr};
  if (result.context == nullptr) throw std::bad_alloc();
  require(file, heif_context_read_from_memory_without_copy(result.context.get(), file.data(0, file.size()), file.size(),
                                                           nullptr));
  heif_image_handle* picture = nullptr;
  require(file, heif_context_get_primary_image_handle(result.context.get(), &picture));
  result.picture.reset(picture);
  file.require_size(heif_image_handle_get_width(picture), heif_image_handle_get_height(picture));
  return result;
}

ImageSize size_of(const heif_image_handle* picture) {
  const int width = heif_image_handle_get_width(picture), height = heif_image_handle_get_height(picture);
  const auto pixels = static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
  // The result and RGBA; before that the planes, of as many samples as pixels each at the most, twice where they are
  // turned.
  const std::uint64_t sample = heif_image_handle_get_luma_bits_per_pixel(picture) > 8 ? 2 : 1;
  return {width, height, pixels * (3 + 4 + 6 * sample), heif_image_handle_has_alpha_channel(picture) != 0};
}

}  // namespace

ImageSize check_heic(const EncodedImage& file) {
  return guarded(file, [&] { return size_of(open(file).picture.get()); });
}

Image decode_heic(const EncodedImage& file, const ImageSize& size, bool on_white) {
  return guarded(file, [&] {
    const Opened opened = open(file);
    const Options options(heif_decoding_options_alloc());
    if (options == nullptr) throw std::bad_alloc();
    options->convert_hdr_to_8bit = 1;
    heif_image* decoded = nullptr;
    require(file,
            heif_decode_image(opened.picture.get(), &decoded, heif_colorspace_RGB,
                              on_white ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB, options.get()));
    const Pixels pixels(decoded);
    int stride = 0;
    const std::uint8_t* row = heif_image_get_plane_readonly(decoded, heif_channel_interleaved, &stride);
    if (row == nullptr || heif_image_get_width(decoded, heif_channel_interleaved) != size.width ||
        heif_image_get_height(decoded, heif_channel_interleaved) != size.height) {
      file.fail("damaged HEIC: it states two sizes");
    }
    Image image = blank_image(size);
    const auto width = static_cast<std::size_t>(size.width);
    for (std::uint8_t* out = image.rgb.data(); out != image.rgb.data() + image.rgb.size(); out += 3 * width) {
      if (on_white) {
        lay_on_white(row, width, out);
      } else {
        std::copy_n(row, 3 * width, out);
      }
      row += stride;
    }
    return image;
  });
}

}  // namespace lamina::detail
