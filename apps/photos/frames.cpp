#include "photos/frames.h"

#include <fmt/core.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lamina/base/content.h"
#include "pictures/text.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

using Bytes = std::span<const unsigned char>;

bool begins(Bytes stream, std::string_view with) {
  return std::string_view(reinterpret_cast<const char*>(stream.data()), stream.size()).starts_with(with);
}

/// Chunks of a length, a name, so many bytes, and their sum; the last is called IEND.
std::size_t png_length(Bytes stream) {
  for (std::size_t at = 8; at + 12 <= stream.size();) {
    std::size_t length = 0;
    for (int i = 0; i < 4; ++i) length = length << 8 | stream[at + static_cast<std::size_t>(i)];
    const bool last = begins(stream.subspan(at + 4), "IEND");
    at += 12 + length;
    if (last) return at <= stream.size() ? at : 0;
  }
  return 0;
}

/// Segments of a marker and a length; behind that of a scan its bits, in which a marker would have a 0 behind its FF.
std::size_t jpeg_length(Bytes stream) {
  bool scan = false;
  for (std::size_t at = 2; at + 2 <= stream.size();) {
    const unsigned char marker = stream[at + 1];
    if (stream[at] != 0xFF || marker == 0xFF || (scan && (marker == 0 || (marker >= 0xD0 && marker <= 0xD7)))) {
      if (!scan && stream[at] != 0xFF) throw Error("stdin: a JPEG image with bytes between its segments");
      ++at;
      continue;
    }
    if (marker == 0xD9) return at + 2;
    if (at + 4 > stream.size()) return 0;
    scan = marker == 0xDA;
    at += 2 + (std::size_t{stream[at + 2]} << 8 | stream[at + 3]);
  }
  return 0;
}

/// "P6", width, height and the highest level with white between, then the bytes.
std::size_t ppm_length(Bytes stream) {
  std::size_t numbers[3] = {}, at = 2;
  for (std::size_t& number : numbers) {
    while (at < stream.size() && std::isspace(stream[at]) != 0) ++at;
    const std::size_t first = at;
    for (; at < stream.size() && std::isdigit(stream[at]) != 0 && at - first < 9; ++at)
      number = number * 10 + (stream[at] - '0');
    if (at < stream.size() && at == first) throw Error("stdin: a PPM image without its size");
  }
  const std::size_t whole = at + 1 + 3 * numbers[0] * numbers[1] * (numbers[2] > 255 ? 2 : 1);
  return at < stream.size() && whole <= stream.size() ? whole : 0;
}

fs::path folder_of_frames;  // where there are some

/// A folder that goes with the process.
struct Scratch {
  fs::path folder;

  Scratch() {
    std::string name = (fs::temp_directory_path() / "lamina-frames-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error("stdin: no folder can be made in " + fs::temp_directory_path().string());
    folder = folder_of_frames = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
};

[[noreturn]] void no_image(Bytes stream) {
  throw Error("stdin: expected PNG, JPEG or PPM images one after the other, as ffmpeg -f image2pipe writes them" +
              detail::found_content(std::as_bytes(stream)));
}

}  // namespace

std::size_t picture_length(Bytes stream) {
  if (begins(stream, "\x89PNG\r\n\x1a\n")) return png_length(stream);
  if (begins(stream, "\xff\xd8")) return jpeg_length(stream);
  if (begins(stream, "P6")) return ppm_length(stream);
  if (stream.size() < 8) return 0;
  no_image(stream);
}

std::vector<fs::path> frames_of_stdin() {
  constexpr std::size_t most = std::size_t{1} << 30;
  static const Scratch scratch;
  std::vector<fs::path> frames;
  std::vector<unsigned char> stream;
  std::size_t begin = 0;
  for (std::vector<unsigned char> block(1 << 20);
       const std::size_t count = std::fread(block.data(), 1, block.size(), stdin);) {
    stream.erase(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(std::exchange(begin, 0)));
    stream.insert(stream.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count));
    while (const std::size_t length = picture_length(Bytes(stream).subspan(begin))) {
      const char* kind = stream[begin] == 'P' ? "ppm" : stream[begin] == 0xFF ? "jpg" : "png";
      frames.push_back(scratch.folder / fmt::format("frame-{:06}.{}", frames.size() + 1, kind));
      write_text(frames.back().string(), {reinterpret_cast<const char*>(stream.data()) + begin, length});
      begin += length;
    }
    if (stream.size() - begin > most) throw Error("stdin: an image of more than 1 GiB");
  }
  const Bytes rest = Bytes(stream).subspan(begin);
  if (rest.size() < 8 && !detail::content_of(std::as_bytes(rest)).name.empty()) no_image(rest);
  if (begin < stream.size()) throw Error(fmt::format("stdin: image {} is not complete", frames.size() + 1));
  if (frames.size() == 1) {  // no frame of a video: its pictures are named after where it came from
    const fs::path alone = scratch.folder / ("stdin" + frames[0].extension().string());
    fs::rename(frames[0], alone);
    frames[0] = alone;
  }
  return frames;
}

std::string name_of_photo(const fs::path& photo) {
  return (photo.parent_path() == folder_of_frames ? photo.filename() : photo).string();
}

}  // namespace lamina::app
