#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

#include "lamina/images/codecs/codec.h"

namespace {

/// What stb_image and stb_image_write allocate while one lives, in this thread. Where memory is short they forget some
/// of their blocks, or write through a null pointer: so every block is known and freed at the end, and a refusal of the
/// system's is an exception. stb_image also grows its buffers as far as the compressed data asks, and reads tables that
/// a damaged file never sets: no block may exceed what the header accounts for, and all memory begins as zeros.
class Blocks {
 public:
  explicit Blocks(std::size_t largest) : largest_(largest) { current = this; }
  ~Blocks() {
    while (first_ != nullptr) release(first_ + 1);
    current = nullptr;
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  /// Null for more than the largest. Throws std::bad_alloc.
  void* reallocate(void* memory, std::size_t bytes) {
    if (bytes > largest_) return nullptr;
    Header* const old = memory == nullptr ? nullptr : static_cast<Header*>(memory) - 1;
    void* const fresh =
        old == nullptr ? std::calloc(1, sizeof(Header) + bytes) : std::realloc(old, sizeof(Header) + bytes);
    if (fresh == nullptr) throw std::bad_alloc();
    auto* const block = static_cast<Header*>(fresh);
    if (old == nullptr) *block = {nullptr, first_};
    (block->before == nullptr ? first_ : block->before->after) = block;
    if (block->after != nullptr) block->after->before = block;
    return block + 1;
  }
  void release(void* memory) {
    if (memory == nullptr) return;
    Header* const block = static_cast<Header*>(memory) - 1;
    (block->before == nullptr ? first_ : block->before->after) = block->after;
    if (block->after != nullptr) block->after->before = block->before;
    std::free(block);
  }

  static thread_local Blocks* current;

 private:
  struct Header {
    alignas(std::max_align_t) Header* before;
    Header* after;
  };

  std::size_t largest_;
  Header* first_ = nullptr;
};

thread_local Blocks* Blocks::current = nullptr;

}  // namespace

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_GIF
#define STBI_NO_STDIO
#define stbi__g_failure_reason lamina_stbi_failure_reason  // not static even so: keep apart from a consumer's own stb
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_ASSERT(condition) ((void)0)  // reachable from damaged files: they end in an error, not in abort()
#define STBI_MALLOC(bytes) Blocks::current->reallocate(nullptr, bytes)
#define STBI_REALLOC(memory, bytes) Blocks::current->reallocate(memory, bytes)
#define STBI_FREE(memory) Blocks::current->release(memory)
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#define STBIW_MALLOC(bytes) Blocks::current->reallocate(nullptr, bytes)
#define STBIW_REALLOC(memory, bytes) Blocks::current->reallocate(memory, bytes)
#define STBIW_FREE(memory) Blocks::current->release(memory)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of what is read through callbacks, and there are none
#endif
#include <stb_image.h>
#include <stb_image_write.h>
#pragma GCC diagnostic pop

namespace lamina::detail {
namespace {

Image decode(const EncodedImage& file, const ImageSize& size, std::string_view format, bool on_white) {
  // 8 bytes per pixel at most (16-bit RGBA), doubled once when a PNG carries more than its pixels; the file's own
  // bytes, doubled while they are collected.
  const auto area = static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
  Blocks blocks(16 * area + 2 * file.size() + (std::size_t{1} << 20));

  // An opaque picture has no fourth channel; asking for one would only cost memory.
  int width = 0, height = 0, channels = 0;
  stbi__g_failure_reason = nullptr;  // of the picture before
  const stbi_uc* const pixels = stbi_load_from_memory(file.data(0, file.size()), static_cast<int>(file.size()), &width,
                                                      &height, &channels, on_white ? 4 : 3);
  if (pixels == nullptr) {
    // It sometimes gives no reason; then there is none, or the one that its test for PNG left still stands.
    const char* reason = stbi_failure_reason();
    const bool given = reason != nullptr && *reason != 0 && std::string_view(reason) != "bad png sig";
    file.fail("damaged ", format, ": ", given ? reason : "invalid data");
  }
  if (width != size.width || height != size.height) file.fail("damaged ", format, ": it states two sizes");

  const std::size_t count = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  Image image{width, height, {}};
  if (on_white) {
    image.rgb.resize(3 * count);
    lay_on_white(pixels, count, image.rgb.data());
  } else {
    image.rgb.assign(pixels, pixels + 3 * count);
  }
  return image;
}

}  // namespace

Image decode_png(const EncodedImage& file, const ImageSize& size, bool on_white) {
  return decode(file, size, "PNG", on_white);
}

Image decode_gif(const EncodedImage& file, const ImageSize& size, bool on_white) {
  return decode(file, size, "GIF", on_white);
}

namespace {

using Encoder = int(stbi_write_func* append, void* context, int width, int height, int channels, const void* pixels,
                    int setting);

std::string encode(Encoder* encoder, const Image& image, int setting) {
  Blocks blocks(std::numeric_limits<std::size_t>::max());
  std::string encoded;
  const auto append = [](void* context, void* data, int count) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(data), static_cast<std::size_t>(count));
  };
  if (encoder(append, &encoded, image.width, image.height, 3, image.rgb.data(), setting) == 0)
    fail(ErrorKind::out_of_memory, "cannot encode an image of ", image.width, " x ", image.height,
         " pixels: out of memory");
  return encoded;
}

}  // namespace

std::string encode_png(const Image& image) { return encode(stbi_write_png_to_func, image, 0); }
std::string encode_jpeg(const Image& image) { return encode(stbi_write_jpg_to_func, image, 92); }

}  // namespace lamina::detail
