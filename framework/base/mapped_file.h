#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lamina::detail {

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file's bytes as memory. The mapping is private: a write to it changes this process's copy of the page and never
/// the file. Tensors that view it share ownership, so it lives as long as the last of them.
///
/// A file that another process shortens while it is mapped cannot be guarded against: touching the lost pages raises
/// SIGBUS. Programs that replace weight files in place should do it by renaming, as AtomicFile does.
class MappedFile {
 public:
  /// Throws Error, with the system's words, if the file is missing, unreadable, empty or not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  /// A copy of bytes, in the place of a file. `name` is what messages call it. Throws Error if there are none.
  static std::shared_ptr<const MappedFile> copy(std::span<const std::byte> bytes, const std::string& name);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// The path as the caller wrote it, for messages.
  const std::string& path() const { return path_; }
  std::span<std::byte> bytes() const { return bytes_; }
  /// Whether it was copied: then no folder has other files that belong to it.
  bool in_memory() const { return in_memory_; }
  /// Gives back the memory of that part, to which nobody has written and which nobody is expected to read soon; it is
  /// read from the file again then.
  void forget(std::span<const std::byte> part) const;

 private:
  MappedFile(std::string path, std::span<std::byte> bytes, bool in_memory)
      : path_(std::move(path)), bytes_(bytes), in_memory_(in_memory) {}

  std::string path_;
  std::span<std::byte> bytes_;
  bool in_memory_;
};

}  // namespace lamina::detail
