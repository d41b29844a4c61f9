#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "lamina/images/codecs/codec.h"
#include "lamina/images/exif.h"

// The first picture of a TIFF through libtiff, as 8-bit RGB whatever it is made of, turned as it says, as Pillow does.
namespace lamina::detail {
namespace {

/// What libtiff reads from, and what it said was wrong.
struct TiffSource {
  const EncodedImage& file;
  std::uint64_t at = 0;
  std::array<char, 256> problem = {"invalid data"};
};

tmsize_t read_tiff(thandle_t handle, void* to, tmsize_t count) {
  auto& [file, at, problem] = *static_cast<TiffSource*>(handle);
  const std::uint64_t left = file.size() - std::min<std::uint64_t>(at, file.size());
  const std::uint64_t taken = std::min(left, static_cast<std::uint64_t>(std::max<tmsize_t>(count, 0)));
  if (taken > 0) std::memcpy(to, file.bytes().data() + at, taken);
  at += taken;
  return static_cast<tmsize_t>(taken);
}

toff_t seek_tiff(thandle_t handle, toff_t to, int from) {
  auto& [file, at, problem] = *static_cast<TiffSource*>(handle);
  return at = to + (from == SEEK_CUR ? at : from == SEEK_END ? file.size() : 0);
}

tmsize_t write_tiff(thandle_t, void*, tmsize_t) { return 0; }
int close_tiff(thandle_t) { return 0; }
toff_t tiff_size(thandle_t handle) { return static_cast<TiffSource*>(handle)->file.size(); }

int note_problem(TIFF*, void* source, const char*, const char* format, va_list arguments) {
  auto& problem = static_cast<TiffSource*>(source)->problem;
  return std::vsnprintf(problem.data(), problem.size(), format, arguments) + 1;
}
int ignore_warning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

using Tiff = std::unique_ptr<TIFF, void (*)(TIFF*)>;

/// No block of memory that libtiff takes may exceed `most`: a header can ask for any.
Tiff open_tiff(TiffSource& source, std::uint64_t most) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  if (options == nullptr) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(most));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), note_problem, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), ignore_warning, nullptr);
  Tiff tiff(TIFFClientOpenExt("picture", "rm", &source, read_tiff, write_tiff, seek_tiff, close_tiff, tiff_size,
                              nullptr, nullptr, options.get()),
            TIFFClose);
  if (tiff == nullptr) source.file.fail("damaged TIFF: ", source.problem.data());
  return tiff;
}

std::uint64_t most_tiff_memory(std::uint64_t pixels) { return 16 * pixels + (std::uint64_t{1} << 20); }

}  // namespace

ImageSize check_tiff(const EncodedImage& file) {
  TiffSource source{file};
  const Tiff tiff = open_tiff(source, most_tiff_memory(file.size()));
  std::uint32_t width = 0, height = 0;
  std::uint16_t samples = 1, bits = 1, extra = 0, compression = COMPRESSION_NONE, *kinds = nullptr;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_SAMPLESPERPIXEL, &samples);
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_BITSPERSAMPLE, &bits);
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_EXTRASAMPLES, &extra, &kinds);
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_COMPRESSION, &compression);
  file.require_size(width, height);
  std::array<char, 1024> why = {};
  if (TIFFRGBAImageOK(tiff.get(), why.data()) == 0) file.fail("this TIFF is not read: ", why.data());
  const std::uint64_t pixels = std::uint64_t{width} * height;
  // Of one sample, as others may be fewer, and of what bounds how far it compresses: faxes code a row in a bit.
  constexpr std::array bounded = {COMPRESSION_PACKBITS, COMPRESSION_LZW, COMPRESSION_DEFLATE, COMPRESSION_ADOBE_DEFLATE,
                                  COMPRESSION_JPEG};
  const std::uint64_t least = pixels * bits / 8;
  if (compression == COMPRESSION_NONE) file.require_data(width, height, least, file.size(), "TIFF");
  if (std::ranges::count(bounded, compression) > 0) file.require_data(width, height, least / 4096, file.size(), "TIFF");
  // The result, libtiff's RGBA, and a strip, which may be all of the picture.
  return {static_cast<int>(width), static_cast<int>(height), pixels * (7 + std::uint64_t{samples} * bits / 8),
          extra > 0};
}

Image decode_tiff(const EncodedImage& file, const ImageSize& size, bool on_white) {
  Image image = blank_image(size);
  const std::size_t pixels = image.rgb.size() / 3;
  TiffSource source{file};
  const Tiff tiff = open_tiff(source, most_tiff_memory(pixels));
  std::vector<std::uint32_t> raster(pixels);
  // libtiff mirrors pictures that lie so, but does not turn those that lie on their side.
  std::uint16_t orientation = ORIENTATION_TOPLEFT;
  TIFFGetFieldDefaulted(tiff.get(), TIFFTAG_ORIENTATION, &orientation);
  TIFFSetField(tiff.get(), TIFFTAG_ORIENTATION, static_cast<std::uint16_t>(ORIENTATION_TOPLEFT));
  if (TIFFReadRGBAImageOriented(tiff.get(), static_cast<std::uint32_t>(size.width),
                                static_cast<std::uint32_t>(size.height), raster.data(), ORIENTATION_TOPLEFT, 1) == 0) {
    file.fail("damaged TIFF: ", source.problem.data());
  }
  std::uint8_t* out = image.rgb.data();
  for (const std::uint32_t pixel : raster) {  // colours are multiplied by their opacity already
    const std::uint32_t white = on_white ? 255 - TIFFGetA(pixel) : 0;
    for (const std::uint32_t level : {TIFFGetR(pixel), TIFFGetG(pixel), TIFFGetB(pixel)}) {
      *out++ = static_cast<std::uint8_t>(std::min(level + white, 255u));
    }
  }
  raster = {};
  return oriented(std::move(image), orientation);
}

}  // namespace lamina::detail
