#include "lamina/base/content.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "lamina/base/error.h"

namespace lamina::detail {
namespace {

struct Row {
  std::size_t at;  // where the mark stands
  std::string_view mark;
  Content content;
};

using namespace std::string_view_literals;

// The first that matches.
constexpr std::array<Row, 41> table = {{
    {0, "\x89PNG\r\n\x1a\n", {"a PNG image", ""}},
    {0, "\xff\xd8\xff", {"a JPEG image", "; djpeg makes a PPM of it: djpeg IN.jpg > OUT.ppm"}},
    {0, "GIF8", {"a GIF image", "; ImageMagick makes a PNG of it: convert IN.gif OUT.png"}},
    {8, "WEBP", {"a WebP image", "; dwebp makes a PNG of it: dwebp IN.webp -o OUT.png"}},
    {4, "ftypavis", {"an AVIF image", "; avifdec makes a PNG of it: avifdec IN.avif OUT.png"}},
    {4, "ftypavif", {"an AVIF image", "; avifdec makes a PNG of it: avifdec IN.avif OUT.png"}},
    {4, "ftyphe", {"a HEIC image", "; heif-convert makes a JPEG of it: heif-convert IN.heic OUT.jpg"}},
    {4, "ftypmif1", {"a HEIC image", "; heif-convert makes a JPEG of it: heif-convert IN.heic OUT.jpg"}},
    {4, "ftypmsf1", {"a HEIC image", "; heif-convert makes a JPEG of it: heif-convert IN.heic OUT.jpg"}},
    {4, "ftyp", {"a video", ""}},
    {0, "\0\0\0\x0cJXL "sv, {"a JPEG XL image", "; djxl makes a PNG of it: djxl IN.jxl OUT.png"}},
    {0, "\xff\x0a", {"a JPEG XL image", "; djxl makes a PNG of it: djxl IN.jxl OUT.png"}},
    {0, "II*\0"sv, {"a TIFF image", "; ImageMagick makes a PNG of it: convert IN.tif OUT.png"}},
    {0, "MM\0*"sv, {"a TIFF image", "; ImageMagick makes a PNG of it: convert IN.tif OUT.png"}},
    {0, "%PDF-", {"a PDF document", ""}},
    {0, "\x89HDF\r\n\x1a\n", {"an HDF5 file, as Keras writes them", ""}},
    {0, "\x93NUMPY", {"a NumPy array (.npy)", ""}},
    {0, "GGUF", {"a GGUF file of llama.cpp", ""}},
    {4, "TFL3", {"a TensorFlow Lite model", ""}},
    {0, "version https://git-lfs.github.com/", {"a Git LFS pointer, not the file it stands for", "; run git lfs pull"}},
    {0, "PK\3\4", {"a zip archive, as PyTorch and NumPy write them too", ""}},
    {0, "PK\5\6", {"an empty zip archive", ""}},
    {0, "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", {"a PyTorch checkpoint", ""}},
    {0, "\x80\2", {"a Python pickle", ""}},
    {0, "\x80\3", {"a Python pickle", ""}},
    {0, "\x80\4", {"a Python pickle", ""}},
    {0, "\x80\5", {"a Python pickle", ""}},
    {0, "\x1f\x8b", {"a gzip archive", "; unpack it: gunzip"}},
    {0, "BZh", {"a bzip2 archive", "; unpack it: bunzip2"}},
    {0,
     "\xfd"
     "7zXZ",
     {"an xz archive", "; unpack it: unxz"}},
    {0, "7z\xbc\xaf", {"a 7-Zip archive", "; unpack it"}},
    {0, "Rar!", {"a RAR archive", "; unpack it"}},
    {0, "\x28\xb5\x2f\xfd", {"a Zstandard archive", "; unpack it: unzstd"}},
    {257, "ustar", {"a tar archive", "; unpack it: tar -xf"}},
    {0,
     "\x7f"
     "ELF",
     {"a program", ""}},
    {0, "MZ", {"a Windows program", ""}},
    {0, "#!", {"a script", ""}},
    {0, "ID3", {"an audio file", ""}},
    {0, "OggS", {"an audio or video file", ""}},
    {0, "fLaC", {"an audio file", ""}},
    {0, "SQLite format 3", {"an SQLite database", ""}},
}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool starts_with_tag(std::string_view text, std::string_view tag) {
  return text.size() >= tag.size() &&
         std::ranges::equal(text.substr(0, tag.size()), tag, [](char a, char b) { return lower(a) == b; });
}

/// No control characters but white space, and bytes beyond ASCII only as UTF-8 has them, roughly.
bool is_readable(std::string_view text) {
  int due = 0;  // bytes of a letter that began
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    const bool continues = (code & 0xc0) == 0x80;
    if (continues != (due > 0)) return false;
    if (continues) {
      --due;
    } else if (code >= 0xc2 && code < 0xf5) {
      due = code >= 0xf0 ? 3 : code >= 0xe0 ? 2 : 1;
    } else if (code >= 0x7f || (code < 0x20 && c != '\n' && c != '\r' && c != '\t')) {
      return false;
    }
  }
  return true;
}

Content content_of_text(std::string_view text) {
  constexpr std::size_t least = 4, most = 512;  // of bytes to judge by
  text = text.substr(0, most);
  const bool readable = text.size() >= least && is_readable(text);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  constexpr std::string_view failed = "; a download may have gone wrong";
  if (starts_with_tag(text, "<!doctype html") || starts_with_tag(text, "<html")) return {"an HTML page", failed};
  if (starts_with_tag(text, "<?xml") || starts_with_tag(text, "<svg")) return {"an XML document", ""};
  if (!readable || text.empty()) return {};
  if (text[0] == '{' || text[0] == '[') return {"JSON text", ""};
  return {"a text", ""};
}

/// A file system that crashed, or a download that reserved its space and no more.
bool is_zeros(std::string_view text) {
  constexpr std::size_t least = 16, most = 4096;  // of bytes to judge by
  return text.size() >= least && text.substr(0, most).find_first_not_of('\0') == std::string_view::npos;
}

/// The first bytes of a file as people can read them: printable ones as they are, others as \x1f.
std::string opening(std::span<const std::byte> bytes) {
  constexpr char hex[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes.first(std::min<std::size_t>(bytes.size(), 12))) {
    const auto c = static_cast<unsigned char>(byte);
    if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
      text += static_cast<char>(c);
    } else {
      text += {'\\', 'x', hex[c >> 4], hex[c & 15]};
    }
  }
  return text;
}

}  // namespace

bool looks_like_onnx(std::span<const std::byte> bytes) {
  // Field 1 of ModelProto comes first: ir_version, a varint of one byte. Then another of its fields, each of its wire
  // type: 2, 3, 4 and 6 are texts, 7 the graph, 8 the operator sets, 14 metadata; 5 is a number.
  if (bytes.size() < 3 || bytes[0] != std::byte{0x08} || bytes[1] == std::byte{0} || bytes[1] >= std::byte{0x80}) {
    return false;
  }
  constexpr std::string_view second = "\x12\x1a\x22\x28\x32\x3a\x42\x72";
  return second.find(static_cast<char>(bytes[2])) != std::string_view::npos;
}

Content content_of(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Row& row : table) {
    if (text.size() >= row.at && text.substr(row.at).starts_with(row.mark)) return row.content;
  }
  if (const Content content = content_of_text(text); !content.name.empty()) return content;
  if (looks_like_onnx(bytes)) return {"an ONNX model", "; it is a model by itself, and no weights for another"};
  if (is_zeros(text)) return {"a file of zero bytes alone", "; a download or a copy may have gone wrong"};
  return {};
}

std::string found_content(std::span<const std::byte> bytes) {
  const Content content = content_of(bytes);
  if (!content.name.empty()) return concat(": this is ", content.name, content.advice);
  return concat("; the file starts with \"", opening(bytes), '"');
}

void require_end(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return;
  const bool given = path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
  if (given && S_ISFIFO(info.st_mode)) return;
  fail(ErrorKind::file_access, "cannot read ", path, ": expected a regular file, this is a ",
       S_ISFIFO(info.st_mode) ? "named pipe" : "device");
}

}  // namespace lamina::detail
