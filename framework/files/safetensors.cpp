#include "lamina/files/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lamina/base/atomic_file.h"
#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/names.h"
#include "lamina/files/safetensors_header.h"
#include "lamina/files/type_names.h"

namespace lamina::detail {
namespace {

constexpr std::size_t prefix_bytes = 8;  // the header's length
constexpr std::uint64_t longest_header = 100'000'000;
constexpr std::size_t data_alignment = 8;

std::uint64_t header_length(const MappedFile& file) {
  std::uint64_t length = 0;  // little-endian, as the host is
  std::memcpy(&length, file.bytes().data(), prefix_bytes);
  return length;
}

/// Checks one entry on its own and turns it into a StoredTensor. `data` is the whole data section.
StoredTensor check_entry(SafetensorsEntry entry, std::span<std::byte> data, const std::string& path) {
  const auto reject = [&](const auto&... parts) { fail(path, ": tensor ", quote(entry.name), ": ", parts...); };
  const TypeNames* const row = type_named(entry.dtype, &TypeNames::safetensors);
  if (row == nullptr) reject("unknown dtype ", quote(entry.dtype));

  std::vector<std::int64_t> shape;
  for (const std::uint64_t extent : entry.shape) {
    if (!std::in_range<std::int64_t>(extent)) reject("extent ", extent, " of its shape overflows");
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  const std::optional<std::uint64_t> count = checked_numel(shape);
  const std::optional<std::uint64_t> bits = count ? checked_mul(*count, row->bits) : std::nullopt;
  if (!bits) reject("the size of ", row->name, ' ', shape_text(shape), " overflows 64 bits");
  if (*bits % 8 != 0) reject(row->name, ' ', shape_text(shape), " takes ", *bits, " bits, not whole bytes");
  const std::uint64_t bytes = *bits / 8;

  const std::string range = concat("data_offsets [", entry.begin, ", ", entry.end, ']');
  if (entry.begin > entry.end) reject(range, " run backwards");
  if (entry.end > data.size()) {
    reject(range, " reach past the end of the data, which has ", data.size(), " bytes; the file may be truncated");
  }
  if (entry.end - entry.begin != bytes) {
    reject("expected ", bytes, " bytes for ", row->name, ' ', shape_text(shape), ", got ", entry.end - entry.begin,
           " (", range, ')');
  }
  StoredTensor stored;
  stored.info = {std::move(entry.name), std::string(row->name), std::move(shape), bytes};
  stored.dtype = row->dtype;
  stored.data = data.data() + entry.begin;
  return stored;
}

/// The tensors must cover the data exactly: a byte that belongs to no tensor could smuggle anything, and one that
/// belongs to two is a mistake.
void check_coverage(const std::vector<StoredTensor>& tensors, std::span<const std::byte> data,
                    const std::string& path) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->data, a->info.bytes) < std::pair(b->data, b->info.bytes);
  });
  std::size_t covered = 0;
  for (const StoredTensor* tensor : order) {
    const auto begin = static_cast<std::size_t>(tensor->data - data.data());
    if (begin != covered) {
      fail(path, ": tensor ", quote(tensor->info.name), ": expected its data to begin at byte ", covered, ", got ",
           begin, begin > covered ? " (a hole before it)" : " (it overlaps another tensor)");
    }
    covered += tensor->info.bytes;
  }
  if (covered != data.size()) {
    fail(path, ": expected the data to end at byte ", covered, ", where the last tensor ends, got ",
         data.size() - covered, " trailing bytes");
  }
}

}  // namespace

bool looks_like_safetensors(const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  return bytes.size() > prefix_bytes && bytes[prefix_bytes] == std::byte{'{'} &&
         header_length(file) <= std::min<std::uint64_t>(longest_header, bytes.size() - prefix_bytes);
}

StoredTensors read_safetensors(std::shared_ptr<const MappedFile> file) {
  const std::string& path = file->path();
  const std::span<std::byte> bytes = file->bytes();
  constexpr const char* foreign = ": not a safetensors, .onnx, .npy or .pth file, or a damaged one: expected a header ";
  if (bytes.size() < prefix_bytes) fail(path, foreign, "length of 8 bytes, got a file of ", bytes.size());
  const std::uint64_t length = header_length(*file);
  if (length > longest_header) {
    fail(path, foreign, "of at most ", longest_header, " bytes, got a length of ", length);
  }
  if (length > bytes.size() - prefix_bytes) {
    fail(path, foreign, "inside the file, got one of ", length, " bytes past the end of the file of ", bytes.size());
  }
  const auto json = bytes.subspan(prefix_bytes, static_cast<std::size_t>(length));
  const auto data = bytes.subspan(prefix_bytes + static_cast<std::size_t>(length));
  SafetensorsHeader header = parse_safetensors_header(text_of(json), path);

  StoredTensors result;
  result.metadata = std::move(header.metadata);
  for (SafetensorsEntry& entry : header.entries) result.tensors.push_back(check_entry(std::move(entry), data, path));
  check_coverage(result.tensors, data, path);
  result.file = std::move(file);
  return result;
}

void require_ending(const std::filesystem::path& path, std::initializer_list<std::string_view> endings) {
  const std::string ending = path.extension().string();
  if (ending.empty() || std::ranges::find(endings, ending) != endings.end()) return;
  std::string expected;
  for (const std::string_view each : endings) expected += concat(expected.empty() ? "" : " or ", each);
  fail("expected a name that ends in ", expected, ", which is what is written, got ", path.string());
}

void write_safetensors(const std::filesystem::path& path, std::vector<OutputTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  require_ending(path, {".safetensors"});
  // Widest first keeps every tensor aligned to its element without padding between them.
  std::sort(tensors.begin(), tensors.end(), [](const OutputTensor& a, const OutputTensor& b) {
    return std::pair(size_of(b.dtype), std::string_view(a.name)) <
           std::pair(size_of(a.dtype), std::string_view(b.name));
  });
  SafetensorsHeader header{{}, metadata};
  std::uint64_t end = 0;
  for (const OutputTensor& tensor : tensors) {
    if (tensor.name == safetensors_metadata_key) {
      fail("cannot write ", path.string(), ": a tensor may not be named ", safetensors_metadata_key);
    }
    const std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(tensor.shape.numel()) * size_of(tensor.dtype);
    header.entries.push_back({tensor.name,
                              std::string(names_of(tensor.dtype).safetensors),
                              {tensor.shape.begin(), tensor.shape.end()},
                              begin,
                              end});
  }
  std::string json = format_safetensors_header(header);
  json.resize(round_up(json.size(), data_alignment), ' ');
  if (json.size() > longest_header) {
    fail("cannot write ", path.string(), ": its header would take ", json.size(), " bytes, more than the ",
         longest_header, " that safetensors allows");
  }
  const std::uint64_t length = json.size();

  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(json)));
  for (const OutputTensor& output : tensors) {
    const Tensor tensor = output.read().to(Device::cpu());
    file.write({static_cast<const std::byte*>(tensor.raw()), tensor.bytes()});
  }
  file.commit();
}

}  // namespace lamina::detail
