#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/mapped_file.h"
#include "lamina/files/stored_tensor.h"

namespace lamina::detail {

/// A zip archive whose entries are stored, not compressed, as torch.save and numpy.savez write it: entries are views of
/// the file. Sizes come from the central directory, since local headers may leave them out; zip64 is understood; a
/// checksum of 0 is none (PyTorch can be told not to compute them).
class ZipArchive {
 public:
  /// Reads the central directory. Throws Error if it is damaged or reaches past the end of the file.
  explicit ZipArchive(std::shared_ptr<const MappedFile> file);

  /// Of its entries, in the order in which they lie in the file.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return entries_.contains(name); }

  /// The one entry called `suffix` or ending in '/' + `suffix`. Throws Error if there is none or more than one.
  std::string find_suffix(std::string_view suffix) const;

  /// An entry's bytes. Throws Error naming it if it is missing, compressed, encrypted or out of the file's bounds, and
  /// if its local header has another name.
  std::span<std::byte> entry(std::string_view name) const;

  /// What the entry's bytes must sum up to, to be compared when they are read; null if the archive does not say.
  std::shared_ptr<Checksum> checksum(std::string_view name) const;

 private:
  struct Entry {
    std::uint64_t header = 0;  // where its local header begins
    std::uint64_t stored = 0;  // bytes in the archive
    std::uint64_t size = 0;    // bytes unpacked
    std::uint32_t crc = 0;
    std::uint16_t method = 0;
    bool encrypted = false;
  };

  std::pair<std::uint64_t, std::uint64_t> locate_directory(std::uint64_t& count) const;
  void read_zip64(std::span<const std::byte> extra, Entry& entry, const std::string& name) const;

  template <class T>
  T number(std::uint64_t at) const;
  std::span<std::byte> range(std::uint64_t at, std::uint64_t size, std::string_view what) const;

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, Entry, std::less<>> entries_;
};

bool looks_like_zip(const MappedFile& file);

}  // namespace lamina::detail
