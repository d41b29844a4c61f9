#include "lamina/files/zip_archive.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

// Offsets and signatures are from PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 to 4.3.16 and 4.5.3.
namespace lamina::detail {
namespace {

constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::uint32_t central_signature = 0x02014b50;
constexpr std::uint32_t end_signature = 0x06054b50;
constexpr std::uint32_t end64_signature = 0x06064b50;
constexpr std::uint32_t locator64_signature = 0x07064b50;

constexpr std::uint64_t local_bytes = 30;
constexpr std::uint64_t central_bytes = 46;
constexpr std::uint64_t end_bytes = 22;
constexpr std::uint64_t end64_bytes = 56;
constexpr std::uint64_t locator64_bytes = 20;
constexpr std::uint64_t longest_comment = 0xffff;

// A field with all bits set says that the true value stands in a zip64 record.
constexpr std::uint16_t in_zip64_16 = 0xffff;
constexpr std::uint32_t in_zip64_32 = 0xffffffff;
constexpr std::uint16_t zip64_extra = 0x0001;

constexpr std::uint16_t method_stored = 0;
constexpr std::uint16_t flag_encrypted = 1;

}  // namespace

bool looks_like_zip(const MappedFile& file) {
  const std::string_view text = text_of(file.bytes());
  return text.starts_with("PK\3\4") || text.starts_with("PK\5\6");  // the latter: an archive of nothing
}

std::span<std::byte> ZipArchive::range(std::uint64_t at, std::uint64_t size, std::string_view what) const {
  const std::span<std::byte> bytes = file_->bytes();
  if (at > bytes.size() || size > bytes.size() - at) {
    fail(file_->path(), ": damaged zip archive: ", what, " reaches past the end of the file of ", bytes.size(),
         " bytes; the file may be truncated");
  }
  return bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
}

template <class T>
T ZipArchive::number(std::uint64_t at) const {
  T value{};  // little-endian, as the host is
  std::memcpy(&value, range(at, sizeof value, "a header").data(), sizeof value);
  return value;
}

ZipArchive::ZipArchive(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {
  std::uint64_t count = 0;
  auto [at, left] = locate_directory(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (left < central_bytes || number<std::uint32_t>(at) != central_signature) {
      fail(file_->path(), ": damaged zip archive: expected ", count, " entries in its directory, found ", i);
    }
    Entry entry;
    const auto flags = number<std::uint16_t>(at + 8);
    entry.encrypted = (flags & flag_encrypted) != 0;
    entry.method = number<std::uint16_t>(at + 10);
    entry.crc = number<std::uint32_t>(at + 16);
    entry.stored = number<std::uint32_t>(at + 20);
    entry.size = number<std::uint32_t>(at + 24);
    entry.header = number<std::uint32_t>(at + 42);
    const std::uint64_t name_bytes = number<std::uint16_t>(at + 28);
    const std::uint64_t extra_bytes = number<std::uint16_t>(at + 30);
    const std::uint64_t record = central_bytes + name_bytes + extra_bytes + number<std::uint16_t>(at + 32);
    if (record > left) fail(file_->path(), ": damaged zip archive: entry ", i, " overruns its directory");
    const std::string name(text_of(range(at + central_bytes, name_bytes, "a name")));
    read_zip64(range(at + central_bytes + name_bytes, extra_bytes, "an extra field"), entry, name);
    if (!entries_.emplace(name, entry).second) {
      fail(file_->path(), ": damaged zip archive: two entries are named ", quote(name));
    }
    at += record;
    left -= record;
  }
}

/// Where the central directory begins and its bytes; its number of entries goes to `count`.
std::pair<std::uint64_t, std::uint64_t> ZipArchive::locate_directory(std::uint64_t& count) const {
  const std::uint64_t file_bytes = file_->bytes().size();
  const auto is_end = [&](std::uint64_t at) {
    return number<std::uint32_t>(at) == end_signature &&
           number<std::uint16_t>(at + 20) == file_bytes - end_bytes - at;  // the comment ends the file
  };
  std::uint64_t end = file_bytes < end_bytes ? 0 : file_bytes - end_bytes;
  const std::uint64_t earliest = end > longest_comment ? end - longest_comment : 0;
  while (end > earliest && !is_end(end)) --end;
  if (file_bytes < end_bytes || !is_end(end)) {
    fail(file_->path(), ": damaged zip archive: it has no end record; the file may be truncated");
  }

  count = number<std::uint16_t>(end + 10);
  std::uint64_t size = number<std::uint32_t>(end + 12);
  std::uint64_t begin = number<std::uint32_t>(end + 16);
  if (count == in_zip64_16 || size == in_zip64_32 || begin == in_zip64_32) {
    if (end < locator64_bytes || number<std::uint32_t>(end - locator64_bytes) != locator64_signature) {
      fail(file_->path(), ": damaged zip archive: it has no zip64 locator");
    }
    const auto end64 = number<std::uint64_t>(end - locator64_bytes + 8);
    range(end64, end64_bytes, "its zip64 end record");
    if (number<std::uint32_t>(end64) != end64_signature) {
      fail(file_->path(), ": damaged zip archive: it has no zip64 end record");
    }
    count = number<std::uint64_t>(end64 + 32);
    size = number<std::uint64_t>(end64 + 40);
    begin = number<std::uint64_t>(end64 + 48);
  }
  range(begin, size, "its directory");
  return {begin, size};
}

/// Replaces the fields that did not fit 32 bits by those of the zip64 extra field, which holds only these, in order.
void ZipArchive::read_zip64(std::span<const std::byte> extra, Entry& entry, const std::string& name) const {
  std::vector<std::uint64_t*> wanted;
  for (std::uint64_t* field : {&entry.size, &entry.stored, &entry.header}) {
    if (*field == in_zip64_32) wanted.push_back(field);
  }
  while (!wanted.empty() && extra.size() >= 4) {
    std::uint16_t id = 0;
    std::uint16_t size = 0;
    std::memcpy(&id, extra.data(), 2);
    std::memcpy(&size, extra.data() + 2, 2);
    extra = extra.subspan(4);
    if (size > extra.size()) break;
    if (id == zip64_extra && size >= wanted.size() * sizeof(std::uint64_t)) {
      for (std::uint64_t* field : wanted) {
        std::memcpy(field, extra.data(), sizeof *field);
        extra = extra.subspan(sizeof *field);
      }
      return;
    }
    extra = extra.subspan(size);
  }
  if (!wanted.empty()) fail(file_->path(), ": damaged zip archive: entry ", quote(name), " has no zip64 sizes");
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::pair<std::uint64_t, std::string>> places;
  for (const auto& [name, entry] : entries_) places.emplace_back(entry.header, name);
  std::ranges::sort(places);
  std::vector<std::string> result;
  for (auto& [place, name] : places) result.push_back(std::move(name));
  return result;
}

std::string ZipArchive::find_suffix(std::string_view suffix) const {
  const std::string* match = nullptr;
  for (const auto& [name, entry] : entries_) {
    const bool matches = name == suffix || (name.ends_with(suffix) && name[name.size() - suffix.size() - 1] == '/');
    if (!matches) continue;
    if (match != nullptr) {
      fail(file_->path(), ": expected one ", suffix, " in the zip archive, got ", quote(*match), " and ", quote(name));
    }
    match = &name;
  }
  if (match == nullptr) {
    fail(file_->path(), ": this zip archive holds no ", suffix, ", so torch.save did not write it");
  }
  return *match;
}

std::span<std::byte> ZipArchive::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(file_->path(), ": the zip archive has no entry ", quote(name));
  const Entry& entry = found->second;
  const std::string what = concat("entry ", quote(name));
  if (entry.encrypted) fail(file_->path(), ": ", what, " is encrypted");
  if (entry.method != method_stored) {
    fail(
        file_->path(), ": ", what, " is compressed (method ", entry.method,
        "); expected entries stored as they are, as torch.save and numpy.savez write them, numpy.savez_compressed not");
  }
  if (entry.stored != entry.size) {
    fail(file_->path(), ": damaged zip archive: ", what, " of ", entry.size, " bytes is stored as ", entry.stored);
  }
  range(entry.header, local_bytes, what);
  if (number<std::uint32_t>(entry.header) != local_signature) {
    fail(file_->path(), ": damaged zip archive: ", what, " has no local header where the directory says");
  }
  const std::uint64_t name_bytes = number<std::uint16_t>(entry.header + 26);
  const std::string_view local = text_of(range(entry.header + local_bytes, name_bytes, what));
  if (local != name) {
    fail(file_->path(), ": damaged zip archive: ", what, " is called ", quote(local), " in its local header");
  }
  const std::uint64_t data = entry.header + local_bytes + name_bytes + number<std::uint16_t>(entry.header + 28);
  return range(data, entry.size, what);
}

std::shared_ptr<Checksum> ZipArchive::checksum(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.crc == 0) return nullptr;
  return std::make_shared<Checksum>(entry(name), found->second.crc, std::string(name));
}

}  // namespace lamina::detail
