#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <vector>

#include "lamina/images/codecs/codec.h"

// After <cstdio>, whose FILE they use.
#include <jpeglib.h>

#include <jerror.h>

// JPEG through libjpeg-turbo with its default settings, as Pillow and so torchvision use it: the same pixels.
namespace lamina {
namespace detail {
namespace {

/// libjpeg reports errors by a function that must not return. An exception may not cross its C frames, so this one
/// jumps back; nothing with a destructor may live between the jump and its target.
struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf target;
  std::array<char, JMSG_LENGTH_MAX> message;
  bool without_end = false;  // the file ends before its end marker; where pixels are missing, another warning follows
};

[[noreturn]] void jump_back(j_common_ptr decoder) {
  auto* manager = reinterpret_cast<ErrorManager*>(decoder->err);
  decoder->err->format_message(decoder, manager->message.data());
  std::longjmp(manager->target, 1);
}

/// libjpeg warns of damage and makes up the pixels. Those of a photograph must be the photograph's.
void judge_warning(j_common_ptr decoder, int level) {
  if (level != -1) return;
  switch (decoder->err->msg_code) {
    case JWRN_JPEG_EOF: reinterpret_cast<ErrorManager*>(decoder->err)->without_end = true; return;
    case JWRN_HIT_MARKER:     // data of a segment end too early
    case JWRN_HUFF_BAD_CODE:  // invalid data
    case JWRN_MUST_RESYNC:    // a restart marker is missing
      jump_back(decoder);
    default: return;  // harmless: bytes between segments, odd headers
  }
}

/// Pillow's CMYK to RGB, of the inverted inks that Adobe's programs write.
void cmyk_to_rgb(const JSAMPLE* inks,  // [width, 4]
                 std::uint8_t* rgb,    // [width, 3]
                 std::size_t width) {
  for (std::size_t i = 0; i < width; ++i, inks += 4, rgb += 3) {
    const unsigned white = inks[3];
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned product = (255u - inks[c]) * white + 128;
      const unsigned taken = ((product >> 8) + product) >> 8;
      rgb[c] = static_cast<std::uint8_t>(white > taken ? white - taken : 0);
    }
  }
}

class Decoder {
 public:
  Decoder() {
    decoder_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = jump_back;
    errors_.base.emit_message = judge_warning;
  }
  ~Decoder() { jpeg_destroy_decompress(&decoder_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Returns nullptr, or what is wrong.
  const char* decode(const EncodedImage& file, Image& image, std::vector<JSAMPLE>& inks) {
    if (setjmp(errors_.target) != 0) return errors_.message.data();
    jpeg_create_decompress(&decoder_);
    jpeg_mem_src(&decoder_, file.data(0, file.size()), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&decoder_, TRUE);
    const bool cmyk = decoder_.num_components == 4;
    decoder_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&decoder_);
    if (decoder_.output_width != static_cast<JDIMENSION>(image.width) ||
        decoder_.output_height != static_cast<JDIMENSION>(image.height)) {
      return "it states two sizes";
    }
    const std::size_t width = decoder_.output_width;
    for (std::uint8_t* row = image.rgb.data(); decoder_.output_scanline < decoder_.output_height; row += 3 * width) {
      JSAMPROW target = cmyk ? inks.data() : row;
      jpeg_read_scanlines(&decoder_, &target, 1);
      if (cmyk) cmyk_to_rgb(inks.data(), row, width);
    }
    const bool refined = has_all_scans();
    jpeg_finish_decompress(&decoder_);
    return errors_.without_end && !refined ? "" : nullptr;
  }

  /// Of what was decoded, or was not: libjpeg makes an end marker up, and then misses what should stand before it.
  bool lacks_end_marker() const { return errors_.without_end; }

 private:
  /// Whether no scan can be missing behind those that were read.
  bool has_all_scans() const {
    if (decoder_.coef_bits == nullptr) return decoder_.comps_in_scan == decoder_.num_components;
    const int* const bits = &decoder_.coef_bits[0][0];  // [components, 64], of a progressive JPEG: 0 where exact
    return std::all_of(bits, bits + decoder_.num_components * DCTSIZE2, [](int left) { return left == 0; });
  }

  jpeg_decompress_struct decoder_{};  // zeros may be destroyed too
  ErrorManager errors_{};
};

}  // namespace

Image decode_jpeg(const EncodedImage& file, const ImageSize& size, bool) {
  Image image = blank_image(size);
  std::vector<JSAMPLE> inks(4 * static_cast<std::size_t>(size.width));
  Decoder decoder;
  if (const char* problem = decoder.decode(file, image, inks)) {
    if (decoder.lacks_end_marker())
      file.fail("truncated: the file ends before its pixels do; copy or download it again");
    file.fail("damaged JPEG: ", problem);
  }
  if (decoder.lacks_end_marker()) {
    image.warning = concat(file.name(), ": the JPEG's end marker is missing; its pixels are all there");
  }
  return image;
}

}  // namespace detail

#define LAMINA_TEXT(number) LAMINA_QUOTED(number)
#define LAMINA_QUOTED(number) #number
std::string_view jpeg_decoder() { return "libjpeg-turbo " LAMINA_TEXT(LIBJPEG_TURBO_VERSION); }

}  // namespace lamina
