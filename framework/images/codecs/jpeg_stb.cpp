#include "lamina/images/codecs/codec.h"

// JPEG where libjpeg-turbo was not found.
namespace lamina {

std::string_view jpeg_decoder() { return "stb_image"; }

namespace detail {

Image decode_jpeg(const EncodedImage& file) { return decode_jpeg_stb(file); }

}  // namespace detail
}  // namespace lamina
