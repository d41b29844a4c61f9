#include "lamina/files/npy.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "lamina/base/atomic_file.h"
#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/names.h"
#include "lamina/files/npy_header.h"
#include "lamina/files/type_names.h"
#include "lamina/files/zip_archive.h"

namespace lamina {
namespace detail {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::string_view file_ending = ".npy";  // of the entries of a .npz
constexpr std::size_t prelude = 8;                // magic, then two bytes of version
constexpr std::size_t alignment = 64;             // of the data, in files we write, as NumPy's

/// Finds the header's text and where the data begins.
std::pair<std::string_view, std::size_t> locate_header(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.size() < prelude) fail(path, ": truncated .npy file of ", bytes.size(), " bytes");
  const auto major = std::to_integer<int>(bytes[6]);
  const auto minor = std::to_integer<int>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fail(path, ": expected .npy version 1.0, 2.0 or 3.0, got ", major, '.', minor);
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t begin = prelude + length_bytes;
  if (bytes.size() < begin) fail(path, ": truncated .npy file of ", bytes.size(), " bytes");
  std::uint32_t length = 0;  // little-endian, as the host is
  std::memcpy(&length, bytes.data() + prelude, length_bytes);
  if (length > bytes.size() - begin) {
    fail(path, ": the .npy header of ", length, " bytes reaches past the end of the file of ", bytes.size());
  }
  return {text_of(bytes.subspan(begin, length)), begin + length};
}

/// Reads a dtype such as "<f4": byte order, kind, bytes.
void read_descr(const std::string& descr, StoredTensor& stored, const std::string& path) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view code = std::string_view(descr).substr(has_order ? 1 : 0);
  if (!code.empty() && code[0] == 'O') {
    fail(path, ": dtype ", quote(descr), " holds pickled Python objects, which Lamina never unpickles");
  }
  const TypeNames* const row = type_named(code, &TypeNames::npy);
  if (row == nullptr) {
    fail(path, ": dtype ", quote(descr), " cannot be read; expected a boolean, integer or float of up to 64 bits");
  }
  stored.dtype = row->dtype;
  stored.info.dtype = row->name;
  stored.swap_bytes = descr[0] == '>' && row->bits > 8;
}

/// The array that `bytes` are the .npy file of; `path` is for messages.
StoredTensor read_array(std::span<std::byte> bytes, const std::string& path) {
  const auto [text, begin] = locate_header(bytes, path);
  NpyHeader header = parse_npy_header(text, path);

  StoredTensor stored;
  read_descr(header.descr, stored, path);
  const std::string what = concat(stored.info.dtype, ' ', shape_text(header.shape));
  const auto count = checked_numel(header.shape);
  const auto size = count ? checked_mul<std::uint64_t>(*count, size_of(*stored.dtype)) : std::nullopt;
  if (!size) fail(path, ": the size of ", what, " overflows 64 bits");
  const auto data = bytes.subspan(begin);
  if (*size != data.size()) {
    fail(path, ": expected ", *size, " bytes of data for ", what, ", got ", data.size(),
         *size > data.size() ? "; the file is truncated" : "; something follows the array");
  }
  if (header.fortran_order && *size != 0) {
    std::int64_t stride = 1;
    for (const std::int64_t extent : header.shape) {
      stored.strides.push_back(stride);
      stride *= extent;
    }
  }
  stored.info.shape = std::move(header.shape);
  stored.info.bytes = *size;
  stored.data = data.data();
  return stored;
}

}  // namespace

bool looks_like_npy(const MappedFile& file) { return text_of(file.bytes()).starts_with(magic); }

StoredTensors read_npy(std::shared_ptr<const MappedFile> file) {
  StoredTensors result;
  result.tensors.push_back(read_array(file->bytes(), file->path()));
  result.tensors[0].info.name = std::filesystem::path(file->path()).stem().string();
  result.file = std::move(file);
  return result;
}

bool looks_like_npz(const MappedFile& file) {
  constexpr std::size_t header = 30;  // of an entry, before its name; the name's length is at 26
  const std::string_view text = text_of(file.bytes());
  if (!looks_like_zip(file) || text.size() < header) return false;
  std::uint16_t length = 0;
  std::memcpy(&length, text.data() + 26, sizeof length);
  return text.substr(header, length).ends_with(file_ending);
}

StoredTensors read_npz(std::shared_ptr<const MappedFile> file) {
  const ZipArchive zip(file);
  StoredTensors result;
  for (const std::string& name : zip.names()) {
    const std::string place = concat(file->path(), ": entry ", quote(name));
    const std::span<std::byte> bytes = zip.entry(name);
    if (!name.ends_with(file_ending) || !text_of(bytes).starts_with(magic)) fail(place, ": expected a .npy file");
    StoredTensor array = read_array(bytes, place);
    array.info.name = name.substr(0, name.size() - file_ending.size());
    array.checksum = zip.checksum(name);
    result.tensors.push_back(std::move(array));
  }
  result.file = std::move(file);
  return result;
}

}  // namespace detail

Tensor load_npy(const std::filesystem::path& path) {
  const auto file = detail::MappedFile::open(path);
  if (!detail::looks_like_npy(*file)) detail::fail(path.string(), ": not a .npy file");
  return detail::read_tensor(detail::read_npy(file).tensors[0], file);
}

void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
  if (!tensor.defined()) detail::fail("cannot write ", path.string(), ": the tensor is undefined");
  const std::string code(detail::names_of(tensor.dtype()).npy);
  if (code.empty()) {
    detail::fail("cannot write ", path.string(), ": .npy has no ", tensor.dtype(), "; convert it to f32 first");
  }
  const std::string descr = (size_of(tensor.dtype()) == 1 ? '|' : '<') + code;
  std::string header = detail::format_npy_header(descr, {tensor.shape().begin(), tensor.shape().end()});
  constexpr std::size_t before = detail::prelude + 2;
  header.resize(detail::round_up(before + header.size() + 1, detail::alignment) - before - 1, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());  // a Shape's eight extents take 170 bytes at most

  std::string front(detail::magic);
  front += {'\1', '\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  const Tensor host = tensor.to(Device::cpu());
  detail::AtomicFile file(path);
  file.write(std::as_bytes(std::span(front)));
  file.write(std::as_bytes(std::span(header)));
  file.write({static_cast<const std::byte*>(host.raw()), host.bytes()});
  file.commit();
}

}  // namespace lamina
