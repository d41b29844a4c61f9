#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "lamina/base/export.h"

namespace lamina::detail {

/// A file that appears whole or not at all: bytes go to a temporary file in the same directory, and `commit` renames
/// it over the destination. Until then an old file of that name stays as it was; destroying the object without
/// `commit` removes the temporary and leaves no trace. Where the file system can (O_TMPFILE), the temporary has no
/// name, so that it vanishes however the process ends.
///
/// The file gets the permissions that a plain open() would give it. A symbolic link is written through, and what is
/// neither a file nor a directory (/dev/null, a pipe) is written directly.
class LAMINA_API AtomicFile {
 public:
  /// Throws Error, with the system's words, if the destination cannot be written.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws Error when the system refuses, for example because the disk is full.
  void write(std::span<const std::byte> bytes);

  /// Makes the file appear under its name, its bytes on the disk. Throws Error if that fails; call at most once.
  void commit();

  /// As `commit`, unless there is a file of that name by now: then it does nothing and returns false.
  bool commit_new();

 private:
  [[noreturn]] void fail_with(int error) const;
  void flush() const;
  void close();
  bool open_unnamed();
  void open_temporary();
  void name_unnamed();

  std::filesystem::path path_;       // as the caller wrote it, for messages
  std::filesystem::path target_;     // with symbolic links resolved
  std::filesystem::path temporary_;  // empty once nothing is left to remove
  /// Closed also where the constructor throws.
  struct Descriptor {
    int value = -1;
    ~Descriptor();
  } file_;
  bool unnamed_ = false;
};

/// `AtomicFile` in one call.
LAMINA_API void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// The same, unless there is anything of that name already: then it does nothing and returns false. Of several
/// processes that do this at once, one succeeds.
LAMINA_API bool write_new_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace lamina::detail
